import { setFlagsFromString } from 'node:v8'

/**
 * Makes V8 use a little more time for garbage collection and far less memory. Its defaults let the heap grow to a
 * multiple of its contents, and the young generation to 32 MiB: right for a server that owns its machine, wrong beside
 * one. With 10,000 Pods in the copies it is 160 MiB instead of 290, and a fifth more processor time.
 *
 * Both flags are read at each decision, so they take effect in a running process, without a wrapper. A V8 that does not
 * know one prints that and continues.
 */
export function limitHeap(): void {
  setFlagsFromString('--semi-space-growth-factor=1')
  setFlagsFromString('--heap-growing-percent=40')
}
