import type { EventOf } from '../event.ts'
import type { FleetView } from '../fleet-view.ts'
import type { Figures } from '../report.ts'

const WINDOW_MS = 10_000

/** What clients met, and what masters wrote, in one or more runs. */
export class TrafficMeter {
  readonly #met = { served: 0, refused: 0, 'black-holed': 0, nobody: 0 }
  #notServedAfterStop = 0
  #writes = 0
  #mostWrites = 0
  #recent = new Map<string, number[]>()

  /** `view`: how things are then. */
  take(event: EventOf<'connection' | 'served' | 'write'>, view: FleetView): void {
    if (event.type === 'served') this.#met.served += event.count
    if (event.type === 'connection') {
      this.#met[event.outcome]++
      if (event.outcome !== 'served' && view.isStopped(event.address)) this.#notServedAfterStop++
    }
    // What is said of others in an Event is nothing that others have to follow.
    if (event.type === 'write' && !event.path.endsWith('/events')) this.#write(event.master, event.atMs)
  }

  /** A run is over: its times say nothing of the next one's. */
  endRun(): void {
    this.#recent = new Map()
  }

  get figures(): Pick<Figures, 'connections' | 'writes'> {
    const { served, refused, 'black-holed': blackHoled, nobody } = this.#met
    const total = served + refused + blackHoled + nobody
    const deadShare = total === 0 ? 0 : (total - served) / total
    const notServedAfterStop = this.#notServedAfterStop
    return {
      connections: { total, served, refused, blackHoled, nobody, deadShare, notServedAfterStop },
      writes: { total: this.#writes, mostInTenSeconds: this.#mostWrites },
    }
  }

  #write(master: string, atMs: number): void {
    this.#writes++
    const recent = (this.#recent.get(master) ?? []).filter((earlier) => earlier > atMs - WINDOW_MS)
    recent.push(atMs)
    this.#recent.set(master, recent)
    this.#mostWrites = Math.max(this.#mostWrites, recent.length)
  }
}
