import { Document, isScalar, visit } from 'yaml'
import { formatDuration } from '../documents/duration.ts'
import type { MasterPlan, MasterSettings, Scenario, Step } from './scenario.ts'
import { apiVersion, boundsKeys, clientsKeys, fleetKeys, type Keys, kind, masterKeys } from './scenario-schema.ts'
import { actions } from './step-schema.ts'

type Mapping = Readonly<Record<string, unknown>>

/** A scenario as a file that `parseScenario` reads back as the same. What is a default is left out. Pure. */
export function renderScenario({ name, description, fleet, clients, bounds, durationMs, steps }: Scenario): string {
  const { masters, ...common } = fleet
  const virtualAddresses = sharedAddresses(masters)
  const file = {
    apiVersion,
    kind,
    name,
    description,
    fleet: {
      masters: renderMasters(masters),
      ...(virtualAddresses.length > 0 && { virtualAddresses }),
      ...withoutDefaults(
        { ...inWords(common), ...(common.apiserverCount === masters.length && { apiserverCount: undefined }) },
        fleetKeys,
      ),
    },
    ...unlessEmpty('clients', withoutDefaults(inWords(clients), clientsKeys)),
    ...unlessEmpty('bounds', withoutDefaults(inWords(bounds), boundsKeys)),
    duration: formatDuration(durationMs),
    steps: steps.map(renderStep),
  }
  const document = new Document(file, { aliasDuplicateObjects: false })
  visit(document, {
    Seq(_, list) {
      list.flow = list.items.every((item) => isScalar(item))
    },
  })
  return document.toString({ lineWidth: 0, flowCollectionPadding: false })
}

function sharedAddresses(masters: readonly MasterPlan[]): readonly string[] {
  const all = masters.flatMap(({ addresses }) => addresses)
  return [...new Set(all.filter((address, index) => all.indexOf(address) !== index))]
}

/** Their number, when that is all there is to say. */
function renderMasters(masters: readonly MasterPlan[]): number | readonly Mapping[] {
  const rendered = masters.map(({ name, addresses, skewMs, driftPpm, settings, ...rest }, index) => ({
    ...(name !== `master-${index + 1}` && { name }),
    ...(addresses.join() !== `192.0.2.${index + 1}` && { addresses }),
    ...withoutDefaults({ ...rest, ...inWords({ skewMs }), drift: driftPpm }, masterKeys),
    ...unlessEmpty('settings', inWords(settings)),
  }))
  return rendered.every((master) => Object.keys(master).length === 0) ? masters.length : rendered
}

function renderStep(step: Step): Mapping {
  const { atMs, action, ...rest } = step
  const { settings, ...others } = rest as { readonly settings?: MasterSettings }
  // What runs beside another leaves no choice of these.
  const forced = step.action === 'restart' && step.overlapMs !== undefined ? ['part', 'signal', 'pause'] : []
  const words = Object.entries(withoutDefaults(inWords(others), actions[action].keys))
  return {
    at: formatDuration(atMs),
    action,
    ...Object.fromEntries(words.filter(([key]) => !forced.includes(key))),
    ...(settings !== undefined && { settings: inWords(settings) }),
  }
}

/** `forMs: 30000` as `for: 30s`. */
function inWords(values: object): Mapping {
  return Object.fromEntries(
    Object.entries(values).map(([key, value]) =>
      key.endsWith('Ms') ? [key.slice(0, -'Ms'.length), formatDuration(value as number)] : [key, value],
    ),
  )
}

function withoutDefaults(values: Mapping, keys: Keys): Mapping {
  return Object.fromEntries(
    Object.entries(values).filter(([key, value]) => value !== undefined && value !== keys[key]?.default),
  )
}

function unlessEmpty(key: string, mapping: Mapping): Mapping {
  return Object.keys(mapping).length === 0 ? {} : { [key]: mapping }
}
