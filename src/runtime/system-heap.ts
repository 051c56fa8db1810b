import { setFlagsFromString } from 'node:v8'
import { type Cancel, type Clock, every } from './clock.ts'

/**
 * Keeps the memory of a process small if the process does little. Call it before much is loaded: memory that has grown
 * does not shrink again. A V8 that does not know one of the flags prints an error and continues.
 *
 * - V8's young generation keeps its first size, 2 MiB, instead of up to 128 MiB. `--semi-space-growth-factor` works
 *   only in a running process, not on Node's command line. While V8 marks the old generation step by step, it does not
 *   collect the young one, which was measured to take up to 16 MiB more until the marking ends, on two processors.
 *   `--no-separate-gc-phases` would avoid this, but the resident memory hardly changes, and V8 itself is hardly tested
 *   with it.
 * - WebAssembly (here only undici's HTTP parser) is not compiled a second time with optimization. A second compilation
 *   takes 10 MiB, which are never returned, and processor time at each start, and makes no request faster.
 */
export function limitMemory(): void {
  setFlagsFromString('--semi-space-growth-factor=1')
  setFlagsFromString('--no-wasm-tier-up')
  setFlagsFromString('--no-wasm-dynamic-tiering')
}

/**
 * Makes V8 use more processor time for garbage collection, but far less memory. The default lets the heap grow to a
 * multiple of its contents. That is right for a server that has a machine to itself, but wrong for a sidecar. Together
 * with {@link limitMemory} and with 10,000 Pods in its informers the process takes 160 MiB instead of 290, and a fifth
 * more processor time. V8 reads the flag at each decision, so it takes effect in a running process.
 */
export function limitHeap(): void {
  setFlagsFromString('--heap-growing-percent=40')
}

/** Bytes in use. */
export type MemoryReading = Pick<NodeJS.MemoryUsage, 'rss' | 'heapUsed'>

const MIB = 1024 * 1024
/** The time between two readings, in milliseconds. */
const PERIOD_MS = 5_000
/**
 * The growth of resident memory that counts as a burst, in bytes. Between two readings of an idle process it varies by
 * less.
 */
const BURST_BYTES = 16 * MIB
/** A larger heap is not collected: that would stop the process for up to 3 ms per MiB, and delay a lease's renewal. */
const MOST_HEAP_BYTES = 64 * MIB

/**
 * Returns memory to the operating system after bursts, such as large invalid answers from a server. By itself V8 keeps
 * the pages of collected objects, and is late to collect memory outside its heap, such as buffers. Returns a function
 * that stops this.
 */
export function releaseMemory(
  clock: Clock,
  read: () => MemoryReading | undefined = memoryReading,
  collect: () => Promise<void> = collectGarbage,
): Cancel {
  let settled: number | undefined
  let collecting = false
  return every(clock, PERIOD_MS, () => {
    const reading = read()
    if (reading === undefined) return
    const { rss, heapUsed } = reading
    settled = Math.min(settled ?? rss, rss)
    if (collecting || rss - settled < BURST_BYTES || heapUsed > MOST_HEAP_BYTES) return
    collecting = true
    void collect().finally(() => {
      settled = read()?.rss
      collecting = false
    })
  })
}

/** Undefined while the system refuses to open `/proc/self/stat`, as when it has too many open files. */
export function memoryReading(): MemoryReading | undefined {
  try {
    return process.memoryUsage()
  } catch {
    return undefined
  }
}

/** Runs a full garbage collection, which returns unused pages to the operating system. Never rejects. */
export async function collectGarbage(): Promise<void> {
  try {
    // Loaded only when needed, because few processes ever need it.
    const { Session } = await import('node:inspector/promises')
    const session = new Session()
    session.connect()
    await session.post('HeapProfiler.collectGarbage').finally(() => session.disconnect())
  } catch {
    // A Node without the inspector keeps its unused pages.
  }
}
