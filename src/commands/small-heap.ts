import { setFlagsFromString } from 'node:v8'

/**
 * Has V8 spend a little more time on collecting garbage and far less memory on leaving it. Its defaults let the heap grow to a multiple of what is in it, and the
 * young generation to 32 MiB: right for a server that owns its machine, wrong beside one. With 10,000 Pods in the copies it is 160 MiB instead of 290, and a fifth more
 * processor time.
 *
 * Both flags are read at each decision, so they take effect in a process that runs already, which needs no wrapper then. A V8 that does not know one says so and goes on.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1')
  setFlagsFromString('--heap-growing-percent=40')
}
