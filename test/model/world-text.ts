import type { Holder } from '../../src/kubernetes-service/leases/master-leases.ts'
import type { Cluster } from './cluster.ts'
import { CUR, get, isFrozen, LIST, nameOf, OLD, processIn, STORE, statusOf, type World } from './fields.ts'
import { type Move, partsOf } from './moves.ts'
import { SERVERS } from './processes.ts'

/** Moves and states in words. */
export class WorldText {
  readonly #cluster: Cluster

  constructor(cluster: Cluster) {
    this.#cluster = cluster
  }

  describe(move: Move, world: World): string {
    const { name, master, slot, kind } = partsOf(move)
    const who = `${nameOf(master)}${slot === OLD ? ' (earlier life)' : ''}`
    const id = processIn(world, master, slot)
    if (kind === 'none') return name === 'tick' || id === undefined ? name : `${who} ${name}`
    const { state, list } = this.#cluster.processes.of(id)
    const what =
      kind === 'lease'
        ? `${state.lease.request?.type} ${recordText(state.lease.request?.holder)}`
        : kind === 'read'
          ? 'read leases'
          : list?.stage === 'read'
            ? `${list.kind === 'leave' ? 'leaving, ' : ''}read list and leases`
            : `write list [${this.#listText(list?.plan ?? 0)}]${list?.stale ? ' conflict' : ''}`
    return `${who} ${what} -> ${name}`
  }

  lineHead(ticks: number): string {
    return `${String(ticks).padStart(3)}  `
  }

  /** The state of the world in one line. */
  text(world: World): string {
    const { records } = this.#cluster.stores.facts(world[STORE] as number)
    const stored = records
      .flatMap((one) => (one === undefined ? [] : [`${recordText(one.holder)}${leftText(one.leftMs)}`]))
      .join(', ')
    const each = this.#cluster.masters.map((master) => {
      const server = SERVERS[this.#cluster.server(world, master)]
      const slots = [CUR, OLD].flatMap((slot) => {
        const id = processIn(world, master, slot)
        if (id === 0) return []
        const { phase, lease } = this.#cluster.processes.of(id).state
        const step = phase.type === 'leaving' ? ` ${phase.step.type}` : ''
        const frozen = isFrozen(statusOf(world, master, slot)) ? ' frozen' : ''
        const trust = lease.trust.type === 'steady' ? '' : ` ${lease.trust.type}`
        return [`${phase.type}${step}${trust}${frozen}`]
      })
      const status = ['not started', '', '', '', 'crashed', 'ended'][get(world, master, 'cur')]
      return `${nameOf(master)} ${slots.join(' / ') || status}, server ${server}`
    })
    return `list [${this.#listText(world[LIST] as number)}]; store [${stored}]; ${each.join('; ')}`
  }

  #listText(bits: number): string {
    return this.#cluster.options.shared
      ? bits === 0
        ? ''
        : 'the address'
      : this.#cluster.masters
          .filter((master) => bits & (1 << master))
          .map(nameOf)
          .join(' ')
  }
}

function leftText(leftMs: number): string {
  return Number.isFinite(leftMs) ? ` for ${leftMs / 1000}` : ''
}

function recordText(holder: Holder | undefined): string {
  if (holder === undefined) return ''
  const departure = holder.departure === undefined ? '' : ` ${holder.departure}`
  const confirms = (holder.confirms ?? []).length === 0 ? '' : ` confirms ${holder.confirms?.join(' ')}`
  return `${holder.instanceId}: ${holder.state}${departure}${confirms}`
}
