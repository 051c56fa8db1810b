import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import type { Holder, MasterLease } from '../../../src/kubernetes-service/leases/master-leases.ts'
import type { ReadinessState } from '../../../src/kubernetes-service/membership/readiness.ts'
import type { Membership, MembershipInput, Phase, Step } from '../../../src/kubernetes-service/membership/state.ts'
import { startMembership, step } from '../../../src/kubernetes-service/membership/step.ts'
import { membershipTimings } from '../../../src/kubernetes-service/membership/timings.ts'

// The table of docs/membership.md: what the production `step` does in each phase with each input.

const page = new URL('../../../docs/membership.md', import.meta.url)
const timings = membershipTimings({
  leaseTtlMs: 15_000,
  reconcileIntervalMs: 10_000,
  readinessProbePeriodMs: 1_000,
})
const nowMs = 100_000
const span = { beganMs: Date.UTC(2026, 0, 1), nowMs: Date.UTC(2026, 0, 1) }
const ready: ReadinessState = { phase: 'ready', failures: 0, failingSinceMs: undefined }
const starting: ReadinessState = { phase: 'starting', failures: 1, failingSinceMs: nowMs - 500 }
const unready: ReadinessState = {
  phase: 'unready',
  failures: 4,
  failingSinceMs: nowMs - 4_000,
  onlySilent: false,
  recoveringSinceMs: undefined,
  reason: '',
}

function holder(number: number, more: Partial<Holder> = {}): Holder {
  return {
    instanceId: `life-${number}`,
    host: `host-${number}`,
    startedAt: '2026-01-01T00:00:00.000000Z',
    addresses: [`192.0.2.${number}`],
    ports: { securePort: 6443, nodePort: 0 },
    state: 'ready',
    ...more,
  }
}

const leaseOf = (one: Holder): MasterLease => ({ address: one.addresses[0] ?? '', holder: one })
const other = leaseOf(holder(2))
const departure = 'life-1/1'

function state(
  phase: Phase,
  self: Partial<Holder>,
  readiness: ReadinessState,
  more: Partial<Membership['lease']> = {},
) {
  const fresh = startMembership(holder(1, self))
  const serving = readiness.phase === 'ready'
  const own = phase.type !== 'starting' && phase.type !== 'joining'
  const known: Membership = {
    ...fresh,
    phase,
    departures: 1,
    server: { ...fresh.server, readiness, serving, answeredAtMs: nowMs - 500, probedAtMs: nowMs - 500 },
    lease: { ...fresh.lease, renewedAtMs: nowMs - 5_000, writtenAtMs: nowMs - 5_000, ...more },
    fleet: { ...fresh.fleet, readAtMs: nowMs - 100, leases: [...(own ? [leaseOf(holder(1, self))] : []), other] },
  }
  return known
}

const leaving = { type: 'leaving', mode: 'withdraw', sinceAtMs: nowMs - 200, before: 'ready', departure } as const
const asked = { state: 'failing', departure } as const
const announced = { state: 'leaving', departure } as const
const requested = (type: 'renew' | 'mark' | 'remove', self: Partial<Holder>) => ({
  request: { type, holder: holder(1, self), sentAtMs: nowMs - 50 },
})

const none = { renewedAtMs: undefined }

/** One state of each phase. If the phase waits for a request, it is under way. */
const rows: Readonly<Record<string, Membership>> = {
  starting: state({ type: 'starting' }, {}, starting, none),
  joining: state({ type: 'joining', sinceAtMs: nowMs - 200 }, {}, ready, {
    ...none,
    ...requested('renew', {}),
  }),
  'listed, `ready`': state({ type: 'listed', departure: undefined }, {}, ready),
  'listed, `failing`': state({ type: 'listed', departure }, asked, unready),
  'listed, `unready`': state({ type: 'listed', departure: undefined }, { state: 'unready' }, unready),
  'leaving, announcing': state({ ...leaving, step: { type: 'announcing' } }, {}, ready, requested('mark', announced)),
  'leaving, waiting': state(
    { ...leaving, step: { type: 'waiting', sinceAtMs: nowMs - 200, untilAtMs: nowMs + 1_000 } },
    announced,
    ready,
  ),
  'leaving, removing': state(
    { ...leaving, step: { type: 'removing' } },
    announced,
    ready,
    requested('remove', { state: 'withdrawn' }),
  ),
  out: state({ type: 'out', why: 'left' }, { state: 'withdrawn' }, ready),
}

const probed = (serving: boolean, answered: boolean, readiness: ReadinessState): MembershipInput => {
  return { type: 'probed', sentAtMs: nowMs, answered, serving, readiness, requested: false }
}
const read = (...leases: readonly MasterLease[]): MembershipInput => {
  return { type: 'leases', sentAtMs: nowMs, leases, span, requested: false }
}

const columns: Readonly<Record<string, (row: Membership) => MembershipInput>> = {
  'probe: ready': () => probed(true, true, ready),
  'probe: not ready': ({ server }) => probed(false, true, server.readiness.phase === 'starting' ? starting : unready),
  'another confirms': ({ self }) => read(leaseOf(self), leaseOf(holder(2, { confirms: [departure] }))),
  'own lease gone': () => read(other),
  'other lease gone': ({ self }) => read(leaseOf(self)),
  'request done': () => ({ type: 'done' }),
  'request failed': () => ({ type: 'failed', failure: 'unknown' }),
  stop: () => ({ type: 'stop', mode: 'withdraw' }),
}

function cell(before: Membership, input: MembershipInput): string {
  const isAnswer = input.type === 'done' || input.type === 'failed'
  if (isAnswer && before.lease.request === undefined) return ''
  const after = step(before, input, nowMs, timings)
  const moved = nameOf(after.state) === nameOf(before) ? '' : `→ ${nameOf(after.state)}`
  const effects = effectsOf(after)
  return [moved, effects.join(', ')].filter((text) => text !== '').join('; ')
}

function effectsOf({ effects }: Step): readonly string[] {
  return effects.flatMap((effect) => {
    if (effect.type === 'report' || effect.type === 'reconcile') return []
    return 'holder' in effect ? `${effect.type} \`${effect.holder.state}\`` : effect.type
  })
}

function nameOf({ phase, self }: Membership): string {
  if (phase.type === 'leaving') return `leaving, ${phase.step.type}`
  if (phase.type === 'listed') return `listed, \`${self.state}\``
  return phase.type === 'out' ? `out: ${phase.why}` : phase.type
}

function table(): string {
  const names = Object.keys(columns)
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [
    line(['phase', ...names]),
    line(['---', ...names.map(() => '---')]),
    ...Object.entries(rows).map(([name, row]) =>
      line([name, ...Object.values(columns).map((input) => cell(row, input(row)))]),
    ),
  ].join('\n')
}

test('the table in docs/membership.md matches the step function', () => {
  const text = readFileSync(page, 'utf8')
  const parts = /^(.*<!-- table -->\n).*(\n<!-- end of the table -->.*)$/s.exec(text)
  assert.ok(parts !== null)
  const expected = `${parts[1]}${table()}${parts[2]}`
  if (process.env.UPDATE_GOLDEN === '1') writeFileSync(page, expected)
  else assert.equal(text, expected)
})
