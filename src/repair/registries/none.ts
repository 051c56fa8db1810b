import { aborted } from '../../runtime/signals.ts'
import type { RangeRegistry } from './range-registry.ts'

/** Where there are no bitmaps: what is wrong can be found and told, and nothing be written. */
export const noneRegistry: RangeRegistry = {
  writable: false,
  where: (name) => `${name} without a range registry`,
  async read(_name, signal) {
    signal.throwIfAborted()
    return { type: 'absent' }
  },
  async write(name) {
    throw new TypeError(`there is no range registry to write ${name} to`)
  },
  async watch({ onChange, report, signal }) {
    if (signal.aborted) return
    await undefined
    if (signal.aborted) return
    report(undefined)
    onChange(undefined)
    await aborted(signal)
  },
}
