import { didYouMean } from '../documents/did-you-mean.ts'
import { formatDuration } from '../documents/duration.ts'
import { ttlFault } from '../kubernetes-service/options.ts'
import { parseAddress } from '../net/address.ts'
import { absentNames } from './absent-names.ts'
import type { MappingReader, Path } from './mapping-reader.ts'
import type { FleetPlan, MasterSettings, Scenario, Step } from './scenario.ts'
import { stepEndMs } from './scenario-duration.ts'

/** A step, and where in the file it stands. */
export interface PlacedStep {
  readonly step: Step
  readonly path: Path
}

/** Notes what is wrong between the values of a scenario; each alone is right. */
export function checkScenario(
  reader: MappingReader,
  scenario: Scenario,
  file: { readonly placed: readonly PlacedStep[]; readonly virtualAddresses: readonly string[] },
): void {
  checkFleet(reader, scenario.fleet)
  checkNames(reader, scenario.fleet)
  checkAddresses(reader, scenario, file.virtualAddresses)
  checkMasters(reader, scenario.fleet)
  const names = absentNames(scenario)
  for (const { step, path } of file.placed) {
    checkTime(reader, scenario, step, path)
    checkChosen(reader, names, { step, path })
    if (step.action === 'restart') checkOverlap(reader, step, path)
    if (step.action === 'roll-config') checkRoll(reader, scenario.fleet, step, { path, shared: file.virtualAddresses })
  }
}

/** Why a fleet cannot keep its leases where it is said to; undefined when it can. */
export function storeFault({ masters, leaseStore }: Pick<FleetPlan, 'masters' | 'leaseStore'>): string | undefined {
  const upstream = masters.find(({ kind }) => kind === 'kube-apiserver')
  if (upstream === undefined || leaseStore === 'etcd' || leaseStore === 'kine') return undefined
  return `must be etcd or kine, not ${leaseStore}: ${upstream.name} is a kube-apiserver, which keeps its lease there`
}

function checkFleet(reader: MappingReader, fleet: FleetPlan): void {
  const fault = storeFault(fleet)
  if (fault !== undefined) reader.wrong(['fleet', 'leaseStore'], fault)
  if (reader.isWrongWithin('fleet', 'leaseTtl') || reader.isWrongWithin('fleet', 'reconcileInterval')) return
  const tooShort = ttlFault(fleet.leaseTtlMs, fleet.reconcileIntervalMs, 'reconcileInterval')
  if (tooShort === undefined) return
  if (reader.has(['fleet', 'leaseTtl'])) reader.wrong(['fleet', 'leaseTtl'], tooShort)
  else reader.wrong(['fleet', 'reconcileInterval'], `the TTL ${tooShort}`)
}

function checkNames(reader: MappingReader, { masters }: FleetPlan): void {
  for (const [index, { name }] of masters.entries()) {
    const first = masters.findIndex((other) => other.name === name)
    if (first === index) continue
    reader.wrong(['fleet', 'masters', index, 'name'], `${name} is the name of two masters`)
  }
}

function checkAddresses(reader: MappingReader, { fleet }: Scenario, shared: readonly string[]): void {
  const { masters } = fleet
  const family = (address: string | undefined): number => parseAddress(address ?? '').family
  for (const [index, { name, addresses }] of masters.entries()) {
    const path = ['fleet', 'masters', index, 'addresses']
    const twice = addresses.find((address) => !shared.includes(address) && holderBefore(masters, index, address))
    if (twice !== undefined) {
      const other = holderBefore(masters, index, twice)
      reader.wrong(path, `${twice} of ${name} is ${other}'s too; say so in virtualAddresses if they share it`)
    }
    const [first] = masters
    if (first !== undefined && family(addresses[0]) !== family(first.addresses[0])) {
      const ours = family(first.addresses[0])
      reader.wrong(path, `the first address must be IPv${ours}, as that of ${first.name}: Endpoints list one family`)
    }
  }
  for (const [index, address] of shared.entries()) {
    if (masters.filter(({ addresses }) => addresses.includes(address)).length >= 2) continue
    reader.wrong(['fleet', 'virtualAddresses', index], `${address} is not the address of two masters or more`)
  }
}

function holderBefore(masters: FleetPlan['masters'], index: number, address: string): string | undefined {
  return masters.slice(0, index).find(({ addresses }) => addresses.includes(address))?.name
}

function checkMasters(reader: MappingReader, fleet: FleetPlan): void {
  for (const [index, { name, addresses, kind, skewMs, driftPpm, settings }] of fleet.masters.entries()) {
    const path = ['fleet', 'masters', index]
    if (kind === 'kube-apiserver') {
      const why = `has no use for ${name}: a kube-apiserver is as upstream made it`
      if (Object.keys(settings).length > 0) reader.wrong([...path, 'settings'], why)
      if (skewMs !== 0) reader.wrong([...path, 'skew'], why)
      if (driftPpm !== 0) reader.wrong([...path, 'drift'], why)
      if (addresses.length > 1) reader.wrong([...path, 'addresses'], `takes one address: ${name} is a kube-apiserver`)
      continue
    }
    if (!reader.isWrongWithin(...path, 'settings')) checkSettings(reader, fleet, settings, [...path, 'settings'])
    const reconciler = settings.reconciler ?? fleet.reconciler
    if (reconciler === 'master-count' && addresses.length > 1) {
      reader.wrong([...path, 'addresses'], 'takes one address with the reconciler master-count, as run does')
    }
  }
}

function checkSettings(reader: MappingReader, fleet: FleetPlan, settings: MasterSettings, path: Path): void {
  const { leaseTtlMs, reconcileIntervalMs } = { ...fleet, ...settings }
  if (settings.leaseTtlMs === undefined && settings.reconcileIntervalMs === undefined) return
  const fault = ttlFault(leaseTtlMs, reconcileIntervalMs, 'reconcileInterval')
  if (fault === undefined) return
  if (settings.leaseTtlMs !== undefined) reader.wrong([...path, 'leaseTtl'], fault)
  else reader.wrong([...path, 'reconcileInterval'], `the TTL ${fault}`)
}

function checkTime(reader: MappingReader, { durationMs, fleet }: Scenario, step: Step, path: Path): void {
  if (reader.isWrongWithin('duration')) return
  const duration = formatDuration(durationMs)
  if (step.atMs > durationMs) {
    reader.wrong(
      [...path, 'at'],
      `${formatDuration(step.atMs)} is after the end of the drill, whose duration is ${duration}`,
    )
    return
  }
  // How long a rolling restart takes is not known before.
  if (step.action === 'rolling-restart' || step.action === 'roll-config') return
  const endMs = stepEndMs(step, fleet)
  if (endMs <= durationMs) return
  const end = formatDuration(endMs)
  reader.wrong(path, `${step.action} is over at ${end}, after the end of the drill, whose duration is ${duration}`)
}

function checkChosen(
  reader: MappingReader,
  { absent, comesMs }: ReturnType<typeof absentNames>,
  { step, path }: PlacedStep,
): void {
  if (!('masters' in step) || step.masters === 'all') return
  const absentThen = absent.get(step) ?? []
  for (const [index, name] of step.masters.entries()) {
    const at = [...path, 'masters', index]
    if (step.masters.indexOf(name) < index) reader.wrong(at, `${name} is named twice`)
    if (!absentThen.includes(name) || comesMs.size === 0 || reader.isWrongWithin('fleet', 'masters')) continue
    reader.wrong(at, `there is no master ${JSON.stringify(name)}${hintFor(name, comesMs)}`)
  }
}

function hintFor(name: string, comesMs: ReadonlyMap<string, number>): string {
  const fromMs = comesMs.get(name)
  if (fromMs !== undefined) return ` until after ${formatDuration(fromMs)}`
  const known = [...comesMs.keys()]
  const meant = didYouMean(name, known)
  return meant === undefined ? `; there are ${known.join(', ')}` : `; did you mean ${meant}?`
}

function checkOverlap(reader: MappingReader, step: Extract<Step, { action: 'restart' }>, path: Path): void {
  if (step.overlapMs === undefined) return
  for (const key of ['part', 'signal', 'pause']) {
    if (reader.has([...path, key]))
      reader.wrong([...path, key], 'has no use beside overlap: the sidecar is terminated then')
  }
}

function checkRoll(
  reader: MappingReader,
  fleet: FleetPlan,
  step: Extract<Step, { action: 'roll-config' }>,
  { path, shared }: { readonly path: Path; readonly shared: readonly string[] },
): void {
  const at = [...path, 'settings']
  const { settings, masters } = step
  if (reader.isWrongWithin(...at)) return
  if (Object.keys(settings).length === 0) reader.wrong(at, 'needs at least one setting: nothing would be rolled')
  const rolled = fleet.masters.filter(({ name }) => masters === 'all' || masters.includes(name))
  const upstream = rolled.find(({ kind }) => kind === 'kube-apiserver')
  if (upstream !== undefined && masters !== 'all') {
    reader.wrong([...path, 'masters'], `${upstream.name} is a kube-apiserver, whose settings cannot be rolled`)
  }
  const { addresses = [] } = settings
  if (addresses.length > 0 && rolled.length > 1) {
    reader.wrong([...at, 'addresses'], 'is for one master: give each a roll-config of its own')
  }
  const others = fleet.masters.filter((master) => !rolled.includes(master))
  const other = others.find((master) =>
    master.addresses.some((one) => addresses.includes(one) && !shared.includes(one)),
  )
  if (other !== undefined) reader.wrong([...at, 'addresses'], `has an address of ${other.name}`)
  if (addresses.length > 1 && (settings.reconciler ?? fleet.reconciler) === 'master-count') {
    reader.wrong([...at, 'addresses'], 'takes one address with the reconciler master-count, as run does')
  }
  checkSettings(reader, fleet, settings, at)
}
