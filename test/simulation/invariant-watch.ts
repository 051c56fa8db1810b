import { FleetJudge } from '../../src/verify/fleet-judge.ts'
import { membersOf, type World } from './composition.ts'

/** Looks every half second whether what must hold does. */
export class InvariantWatch {
  readonly #world: World
  readonly #judge = new FleetJudge()
  #seen = 0
  #asked = 0

  constructor(world: World) {
    this.#world = world
  }

  get violations(): readonly string[] {
    return this.#judge.violations.map(({ invariant, detail }) => `not so: ${invariant}: ${detail}`)
  }

  /** Lets a multiple of half a second pass. */
  async advance(ms: number): Promise<void> {
    const { fleet } = this.#world
    this.#judge.note(this.#truth())
    for (let passedMs = 0; passedMs < ms; passedMs += 500) {
      await fleet.advance(500)
      this.#judge.note(this.#truth())
      this.#judge.check(this.#truth(), {
        listings: fleet.listings.slice(this.#seen),
        requests: fleet.requests.slice(this.#asked),
      })
      this.#seen = fleet.listings.length
      this.#asked = fleet.requests.length
    }
  }

  /** Everybody who is alive is listed, in both objects, and the rest is not; for `quietMs` nobody has written but to leases. */
  expectAllListed(quietMs: number): void {
    const { retired, fleet } = this.#world
    const members = membersOf(this.#world).filter((member) => !retired.has(member))
    this.#judge.checkEnd({ nowMs: fleet.time.nowMs, members }, quietMs)
  }

  #truth() {
    const { fleet } = this.#world
    const members = membersOf(this.#world)
    const leasesStandStill = fleet.etcd === undefined ? members.every(({ connected }) => !connected) : fleet.etcd.down
    return { nowMs: fleet.time.nowMs, members, leasesStandStill }
  }
}
