import { formatDuration } from '../../documents/duration.ts'
import { didYouMean } from '../../documents/validation.ts'
import { ttlFault } from '../../kubernetes-service/options.ts'
import { parseAddress } from '../../net/address.ts'
import { stepEndMs } from './duration.ts'
import type { MappingReader, Path } from './mapping-reader.ts'
import { isAmong, isSuccessorName, kubeApiserverAmong, mastersIn } from './names.ts'
import type { FleetPlan, MasterPlan, Scenario, Step } from './scenario.ts'

export interface PlacedStep {
  readonly step: Step
  readonly path: Path
}

/** Reports contradictions between the values of a scenario. The caller has checked each value by itself. */
export function checkScenario(
  reader: MappingReader,
  scenario: Scenario,
  file: { readonly placed: readonly PlacedStep[]; readonly virtualAddresses: readonly string[] },
): void {
  const { fleet } = scenario
  const fault = storeFault(fleet)
  if (fault !== undefined) reader.wrong(['fleet', 'leaseStore'], fault)
  const idle = effectFault(scenario)
  if (idle !== undefined) reader.wrong(['steps'], idle)
  checkTimes(reader, fleet, ['fleet'])
  const masters = mastersIn(scenario)
  checkNames(reader, fleet, masters, file.placed)
  checkAddresses(reader, fleet, file.virtualAddresses)
  checkMasters(reader, fleet)
  for (const { step, path } of file.placed) {
    if (step.action === 'restart' && reader.has([...path, 'overlap'])) {
      const why = 'cannot be used with overlap, which always terminates the sidecar'
      refuse(reader, path, ['part', 'signal', 'pause'], why)
    }
    if (step.action === 'requests-fail') checkRequests(reader, masters, step, path)
    if (step.action === 'roll-config')
      checkRoll(reader, scenario, masters, step, { path, shared: file.virtualAddresses })
    checkTime(reader, scenario, step, path)
  }
}

/**
 * Why a drill of kube-apiservers would hold without a fault: each of its steps needs a sidecar or has only faults to
 * undo. Undefined if some master has a sidecar, or some step has an effect.
 */
export function effectFault({ fleet, steps }: Pick<Scenario, 'fleet' | 'steps'>): string | undefined {
  const acting = steps.filter(({ action }) => action !== 'heal')
  const hasEffect = fleet.masters.some(({ kind }) => kind !== 'kube-apiserver') || !acting.every(needsSidecar)
  if (hasEffect || acting.length === 0) return undefined
  const names = new Set(acting.map(({ action }) => action))
  return `all masters are kube-apiservers, which have no sidecar: ${[...names].join(' and ')} would have no effect`
}

/** Whether the step does nothing to a kube-apiserver, in both targets. */
function needsSidecar(step: Step): boolean {
  switch (step.action) {
    case 'requests-fail':
    case 'roll-config':
    case 'clock-skew':
      return true
    case 'restart':
      return step.overlapMs !== undefined
    case 'partition':
      return step.from === 'api'
    default:
      return false
  }
}

/** Why a fleet cannot store its leases in its `leaseStore`; undefined if it can. */
export function storeFault({ masters, leaseStore }: Pick<FleetPlan, 'masters' | 'leaseStore'>): string | undefined {
  const upstream = masters.find(({ kind }) => kind === 'kube-apiserver')
  if (upstream === undefined || leaseStore === 'etcd' || leaseStore === 'kine') return undefined
  return `must be etcd or kine, not ${leaseStore}: ${upstream.name} is a kube-apiserver, which keeps its lease there`
}

/** Reports a mistake at the TTL or, if only the interval is given at `path`, at the interval. */
function checkTimes(
  reader: MappingReader,
  { leaseTtlMs, reconcileIntervalMs }: Pick<FleetPlan, 'leaseTtlMs' | 'reconcileIntervalMs'>,
  path: Path,
): void {
  const fault = ttlFault(leaseTtlMs, reconcileIntervalMs, 'reconcileInterval')
  if (fault === undefined) return
  if (reader.has([...path, 'leaseTtl'])) reader.wrong([...path, 'leaseTtl'], fault)
  else if (reader.has([...path, 'reconcileInterval'])) reader.wrong([...path, 'reconcileInterval'], `the TTL ${fault}`)
}

function checkNames(
  reader: MappingReader,
  { masters }: FleetPlan,
  all: readonly MasterPlan[],
  placed: readonly PlacedStep[],
): void {
  for (const [index, { name }] of masters.entries()) {
    const path = ['fleet', 'masters', index, 'name']
    if (masters.findIndex((other) => other.name === name) < index) {
      reader.wrong(path, `${name} is used by two masters`)
    }
    const before = masters.find((other) => isSuccessorName(name, other.name))
    if (before === undefined) continue
    reader.wrong(path, `${name} is reserved for the successor of ${before.name}; choose another name`)
  }
  const known = all.map(({ name }) => name)
  for (const { step, path } of placed) {
    const chosen = 'masters' in step && step.masters !== 'all' ? step.masters : []
    for (const [index, name] of chosen.entries()) {
      const at = [...path, 'masters', index]
      if (chosen.indexOf(name) < index) reader.wrong(at, `${name} is named twice`)
      else if (!known.includes(name)) {
        const meant = didYouMean(name, known)
        const rest = meant === undefined ? `; there are ${known.join(', ')}` : `; did you mean ${meant}?`
        reader.wrong(at, `there is no master ${JSON.stringify(name)}${rest}`)
      }
    }
  }
}

function checkAddresses(reader: MappingReader, fleet: FleetPlan, shared: readonly string[]): void {
  const { masters } = fleet
  for (const [index, { name, addresses }] of masters.entries()) {
    const path = ['fleet', 'masters', index, 'addresses']
    const twice = addresses.find((address) => !shared.includes(address) && holderBefore(masters, index, address))
    if (twice !== undefined) {
      const other = holderBefore(masters, index, twice)
      reader.wrong(
        path,
        `${twice} of ${name} is also an address of ${other}; if they share it, add it to virtualAddresses`,
      )
    }
    checkFamily(reader, fleet, addresses, path)
  }
  for (const [index, address] of shared.entries()) {
    if (masters.filter(({ addresses }) => addresses.includes(address)).length >= 2) continue
    reader.wrong(['fleet', 'virtualAddresses', index], `${address} is not the address of two masters or more`)
  }
}

function checkFamily(
  reader: MappingReader,
  { masters: [first] }: FleetPlan,
  addresses: readonly string[],
  path: Path,
): void {
  const familyOf = ([address = '']: readonly string[]): number => parseAddress(address).family
  if (first === undefined || familyOf(addresses) === familyOf(first.addresses)) return
  const family = familyOf(first.addresses)
  reader.wrong(path, `the first address must be IPv${family}, as that of ${first.name}: Endpoints list one family`)
}

function holderBefore(masters: FleetPlan['masters'], index: number, address: string): string | undefined {
  return masters.slice(0, index).find(({ addresses }) => addresses.includes(address))?.name
}

function checkMasters(reader: MappingReader, fleet: FleetPlan): void {
  for (const [index, { name, addresses, kind, skewMs, driftPpm, settings }] of fleet.masters.entries()) {
    const path = ['fleet', 'masters', index]
    if (kind === 'kube-apiserver') {
      const why = `cannot be set for ${name}: it is a kube-apiserver`
      if (Object.keys(settings).length > 0) reader.wrong([...path, 'settings'], why)
      if (skewMs !== 0) reader.wrong([...path, 'skew'], why)
      if (driftPpm !== 0) reader.wrong([...path, 'drift'], why)
      if (addresses.length > 1) reader.wrong([...path, 'addresses'], `takes one address: ${name} is a kube-apiserver`)
      continue
    }
    checkTimes(reader, { ...fleet, ...settings }, [...path, 'settings'])
    checkAddressCount(reader, { ...fleet, ...settings }, addresses, [...path, 'addresses'])
  }
}

function checkAddressCount(
  reader: MappingReader,
  { reconciler }: Pick<FleetPlan, 'reconciler'>,
  addresses: readonly string[],
  path: Path,
): void {
  if (addresses.length > 1 && reconciler === 'master-count') {
    reader.wrong(path, 'takes one address with the reconciler master-count, as run does')
  }
}

function checkTime(reader: MappingReader, { durationMs, fleet }: Scenario, step: Step, path: Path): void {
  // Without a given duration, the drill is long enough for all steps.
  if (!reader.has(['duration'])) return
  const duration = formatDuration(durationMs)
  if (step.atMs > durationMs) {
    reader.wrong(
      [...path, 'at'],
      `${formatDuration(step.atMs)} is after the end of the drill, whose duration is ${duration}`,
    )
    return
  }
  // The duration of a rolling restart is not known beforehand.
  if (step.action === 'rolling-restart' || step.action === 'roll-config') return
  const endMs = stepEndMs(step, fleet)
  if (endMs <= durationMs) return
  const end = formatDuration(endMs)
  reader.wrong(path, `${step.action} is over at ${end}, after the end of the drill, whose duration is ${duration}`)
}

function refuse(reader: MappingReader, path: Path, keys: readonly string[], why: string): void {
  for (const key of keys) if (reader.has([...path, key])) reader.wrong([...path, key], why)
}

/** For each `how`: which of the keys `status`, `retryAfter`, `by`, `every` and `requests` it takes. */
const requestKeys = {
  status: ['status', 'retryAfter', 'requests'],
  hang: ['requests'],
  delay: ['by', 'requests'],
  'cut-watches': ['every'],
  'lose-event': [],
  expired: [],
} as const

function checkRequests(
  reader: MappingReader,
  all: readonly MasterPlan[],
  step: Extract<Step, { action: 'requests-fail' }>,
  path: Path,
): void {
  const { how, status, masters } = step
  const taken: readonly string[] = requestKeys[how]
  const others = ['status', 'retryAfter', 'by', 'every', 'requests'].filter((key) => !taken.includes(key))
  refuse(reader, path, others, `cannot be used with how: ${how}`)
  const needed = how === 'status' ? 'status' : how === 'delay' ? 'by' : undefined
  if (needed !== undefined && !reader.has([...path, needed])) {
    reader.wrong(path, `requests-fail with how: ${how} needs "${needed}"`)
  }
  if (how === 'expired') {
    refuse(reader, path, ['resource', 'verb', 'only'], 'cannot be used with how: expired, which refuses all requests')
  }
  if (how === 'status' && status !== undefined && status !== 429 && status !== 503) {
    refuse(reader, path, ['retryAfter'], `requires the status 429 or 503, not ${status}`)
  }
  if (how === 'cut-watches' || how === 'lose-event') {
    const { verb = 'watch' } = step
    if (verb !== 'watch') reader.wrong([...path, 'verb'], `must be watch with how: ${how}, not ${verb}`)
    if (step.only === 'probe') reader.wrong([...path, 'only'], `must be api with how: ${how}: no probe is a watch`)
  }
  if (step.only === 'probe') refuse(reader, path, ['resource', 'verb'], 'cannot be used with only: probe')
  if (masters === 'all') return
  const upstream = kubeApiserverAmong(masters, all)
  if (upstream !== undefined)
    reader.wrong([...path, 'masters'], `${upstream} is a kube-apiserver, which has no sidecar`)
}

function checkRoll(
  reader: MappingReader,
  { fleet, steps }: Scenario,
  all: readonly MasterPlan[],
  { masters, settings }: Extract<Step, { action: 'roll-config' }>,
  { path, shared }: { readonly path: Path; readonly shared: readonly string[] },
): void {
  const at = [...path, 'settings']
  if (Object.keys(settings).length === 0) reader.wrong(at, 'needs at least one setting: nothing would be rolled')
  const { addresses = [] } = settings
  checkTimes(reader, { ...fleet, ...settings }, at)
  checkAddressCount(reader, { ...fleet, ...settings }, addresses, [...at, 'addresses'])
  if (addresses.length > 0) checkFamily(reader, fleet, addresses, [...at, 'addresses'])
  const upstream = kubeApiserverAmong(masters, all)
  if (upstream !== undefined && masters !== 'all') {
    reader.wrong([...path, 'masters'], `${upstream} is a kube-apiserver, whose settings cannot be rolled`)
  }
  // A successor is counted as its predecessor.
  const isFirst = ({ name }: MasterPlan): boolean => !all.some((other) => isSuccessorName(name, other.name))
  if (addresses.length > 0 && all.filter((one) => isFirst(one) && isAmong(masters, one.name)).length > 1) {
    reader.wrong([...at, 'addresses'], 'is for one master: give each a roll-config of its own')
  }
  const other = [...all, ...rolledAddresses(steps)].find(
    (one) =>
      !isAmong(masters, one.name) &&
      one.addresses.some((address) => addresses.includes(address) && !shared.includes(address)),
  )
  if (other === undefined) return
  const isAdded = all.some((one) => one === other) && !fleet.masters.some(({ name }) => isAmong([name], other.name))
  reader.wrong([...at, 'addresses'], `has an address of ${other.name}${isAdded ? ', which a scale step adds' : ''}`)
}

/** The addresses that each master gets by `roll-config`, except those of steps for all masters. */
function rolledAddresses(steps: readonly Step[]): readonly Pick<MasterPlan, 'name' | 'addresses'>[] {
  return steps.flatMap((step) => {
    if (step.action !== 'roll-config' || step.masters === 'all') return []
    const { addresses = [] } = step.settings
    return step.masters.map((name) => ({ name, addresses }))
  })
}
