import { takeOwnOptions } from '../config/own-options.ts'
import type { Flags } from '../config/resolve.ts'
import { flagOf, type OptionGroup } from '../documents/option.ts'
import { InvalidInputError, type Mistake } from '../documents/validation.ts'
import {
  type DrillValues,
  drillCampaignOptions,
  drillConnectionOptions,
  drillEtcdOptions,
  drillLiveOptions,
  drillReportOptions,
  ownDrillOptions,
} from './drill-options.ts'

/** What the command line asks for. */
export interface DrillRequest {
  readonly type: 'list' | 'campaign' | 'drill'
  readonly values: DrillValues
  /** Those of the API server and of etcd. */
  readonly rest: Flags
  /** The line that makes the drill again, for a shell. */
  readonly command: string
}

/** Takes the command line apart. Throws an {@link InvalidInputError} with every mistake, flags that have no use among them. */
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
    refuse(given, 'has no use with list')
    return mistakes
  }
  const { target, output } = values
  if (scenario === 'random' && target === 'live') {
    refuse(['target'], 'random schedules are for sim: much of what they do cannot be done to real processes')
    return mistakes
  }
  if (type === 'campaign') {
    refuse(['reconciler', 'leaseStore'], 'has no use with random and --runs over 1: each seed decides it')
    if (output === 'junit') refuse(['output'], 'must be text or json with random and --runs over 1')
  } else {
    refuse(keysOf(drillCampaignOptions), 'has no use without random and --runs over 1')
  }
  if (target === 'sim') {
    refuse(keysOf(drillLiveOptions, drillConnectionOptions, drillEtcdOptions), 'has no use without --target=live')
    return mistakes
  }
  if (!values.yes) {
    const message = 'is required with --target=live, which changes default/kubernetes and puts it back when it ends'
    mistakes.push({ where: '--yes', message })
  }
  if (flags.kubeconfig === undefined) {
    mistakes.push({ where: '--kubeconfig', message: 'is required with --target=live; no other API server is taken' })
  }
  return mistakes
}

function keysOf(...groups: readonly OptionGroup[]): readonly string[] {
  return groups.flatMap(({ options }) => Object.keys(options))
}

/** The seed is said even where it is the default; what becomes of the report is not. */
function commandLine(scenario: string, flags: Flags): string {
  const words = ['apiserver-bootstrap', 'drill', quote(scenario)]
  const silent = keysOf(drillReportOptions)
  for (const [key, text] of Object.entries({ seed: '1', ...flags })) {
    if (text === undefined || silent.includes(key)) continue
    const isSwitch = key === 'yes' || key === 'failFast'
    words.push(`--${flagOf(key)}`, ...(isSwitch ? [] : [quote(text)]))
  }
  return words.join(' ')
}

/** For a POSIX shell. */
function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
