import { type Flags, takeOwnOptions } from '../config/resolve.ts'
import { flagOf, type OptionGroup } from '../documents/option.ts'
import { InvalidInputError, type Mistake } from '../documents/validation.ts'
import { type Variant, variantName, vary } from '../drill/run-drill.ts'
import { effectFault, storeFault } from '../drill/scenario/rules.ts'
import type { Scenario } from '../drill/scenario/scenario.ts'
import { shellWord } from '../runtime/shell.ts'
import {
  type DrillValues,
  drillCampaignOptions,
  drillConnectionOptions,
  drillEtcdOptions,
  drillLiveOptions,
  drillReportOptions,
  ownDrillOptions,
} from './options.ts'

export interface DrillRequest {
  readonly type: 'list' | 'campaign' | 'drill'
  readonly values: DrillValues
  /** The given flags of the connections to the API server and to etcd. */
  readonly rest: Flags
  /** The command line, for a shell, that repeats the drill. */
  readonly command: string
}

/**
 * Parses the flags of `drill`. `scenario` is the argument: a name, a file, `random` or `list`. Throws an
 * {@link InvalidInputError} for mistakes, such as flags that would have no effect.
 */
export function readDrillRequest(flags: Flags, scenario: string): DrillRequest {
  const { own: values, rest } = takeOwnOptions(ownDrillOptions, flags)
  const type = scenario === 'list' ? 'list' : scenario === 'random' && values.runs > 1 ? 'campaign' : 'drill'
  const mistakes = mistakesIn(type, scenario, values, flags)
  if (mistakes.length > 0) throw new InvalidInputError(mistakes)
  return { type, values, rest, command: commandLine(scenario, flags) }
}

function mistakesIn(type: DrillRequest['type'], scenario: string, values: DrillValues, flags: Flags): Mistake[] {
  const mistakes: Mistake[] = []
  const given = Object.keys(flags).filter((key) => flags[key] !== undefined)
  const refuse = (keys: readonly string[], message: string): void => {
    for (const key of keys) if (given.includes(key)) mistakes.push({ where: `--${flagOf(key)}`, message })
  }
  if (type === 'list') {
    refuse(given, 'cannot be used with list')
    return mistakes
  }
  const { target, output } = values
  if (scenario === 'random' && target === 'live') {
    refuse(['target'], 'random schedules require sim: real processes do not support many of their steps')
    return mistakes
  }
  if (type === 'campaign') {
    refuse(
      ['reconciler', 'leaseStore', 'allowKnownFailures'],
      'cannot be used with random and --runs over 1: each seed decides it',
    )
    if (output === 'junit') refuse(['output'], 'must be text or json with random and --runs over 1')
  } else {
    refuse(keysOf(drillCampaignOptions), 'requires random and --runs over 1')
  }
  if (target === 'sim') {
    refuse(keysOf(drillLiveOptions, drillConnectionOptions, drillEtcdOptions), 'requires --target=live')
    return mistakes
  }
  if (!values.yes) {
    const message = 'is required with --target=live, which changes default/kubernetes and restores it at the end'
    mistakes.push({ where: '--yes', message })
  }
  if (flags.kubeconfig === undefined) {
    mistakes.push({ where: '--kubeconfig', message: 'is required with --target=live; there is no default API server' })
  }
  return mistakes
}

function keysOf(...groups: readonly OptionGroup[]): readonly string[] {
  return groups.flatMap(({ options }) => Object.keys(options))
}

/** Includes the seed even if it is the default. Leaves out the flags of the report. */
function commandLine(scenario: string, flags: Flags): string {
  const words = ['apiserver-bootstrap', 'drill', shellWord(scenario)]
  const silent = keysOf(drillReportOptions)
  for (const [key, text] of Object.entries({ seed: '1', ...flags })) {
    if (text === undefined || silent.includes(key)) continue
    words.push(`--${flagOf(key)}`, ...(text === 'true' ? [] : [shellWord(text)]))
  }
  return words.join(' ')
}

export interface VariedScenario {
  readonly variant: Variant
  readonly scenario: Scenario
}

type Reconciler = NonNullable<DrillValues['reconciler']>[number]

/**
 * The variants to drill side by side: one for each reconciler and, with the reconciler `lease`, one for each lease
 * store. Without `--reconciler` or `--lease-store` the scenario decides. Throws an {@link InvalidInputError} for an
 * impossible combination.
 */
export function variantsOf(
  scenario: Scenario,
  { reconciler, leaseStore }: Pick<DrillValues, 'reconciler' | 'leaseStore'>,
): readonly VariedScenario[] {
  const { fleet } = scenario
  const upstream = fleet.masters.every(({ kind }) => kind === 'kube-apiserver')
  const reconcilers: readonly Reconciler[] = [
    ...new Set<Reconciler>(reconciler ?? [upstream ? 'kube-apiserver' : fleet.reconciler]),
  ]
  const stores = [...new Set(leaseStore ?? [fleet.leaseStore])]
  const mistakes: Mistake[] = []
  if (leaseStore !== undefined && !reconcilers.includes('lease')) {
    mistakes.push({ where: '--lease-store', message: 'requires the reconciler lease' })
  }
  const varied = reconcilers
    .flatMap((one): readonly Omit<Variant, 'name'>[] => {
      if (one === 'lease') return stores.map((store) => ({ fleet: { reconciler: one, leaseStore: store } }))
      if (one !== 'kube-apiserver') return [{ fleet: { reconciler: one } }]
      // A kube-apiserver stores its lease in its own datastore: etcd or kine.
      return [{ fleet: { leaseStore: fleet.leaseStore === 'kine' ? 'kine' : 'etcd' }, kubeApiservers: true }]
    })
    .map((variant) => {
      const own = vary(scenario, { ...variant, name: '' })
      return { variant: { ...variant, name: variantName(own.fleet) }, scenario: own }
    })
  for (const one of varied) {
    const fault = storeFault(one.scenario.fleet)
    if (fault !== undefined) mistakes.push({ where: '--lease-store', message: fault })
    const idle = effectFault(one.scenario)
    if (idle !== undefined) mistakes.push({ where: '--reconciler', message: idle })
  }
  if (mistakes.length > 0) throw new InvalidInputError(mistakes)
  return varied
}
