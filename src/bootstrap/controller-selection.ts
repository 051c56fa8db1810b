import { didYouMean } from '../documents/did-you-mean.ts'

/** The duties that every master has, unless they are turned off: `auto`. */
const usualNames = [
  'kubernetes-service',
  'system-namespaces',
  'default-service-cidr',
  'cluster-ip-repair',
  'node-port-repair',
] as const

/** Those of a kube-controller-manager, for clusters that have none: only where they are named. */
export const workloadControllerNames = ['endpoints', 'endpointslice', 'endpointslice-mirroring'] as const

/** The duties that a master can have. */
export const controllerNames = [...usualNames, ...workloadControllerNames] as const

export type WorkloadControllerName = (typeof workloadControllerNames)[number]

export type ControllerName = (typeof controllerNames)[number]

/** Which duties a master has. */
export interface ControllerSelection {
  /** The usual duties, except those that the server does itself. */
  readonly auto: boolean
  /** On whatever the server does itself. */
  readonly on: readonly ControllerName[]
  /** Off. */
  readonly off: readonly ControllerName[]
}

/**
 * Reads the items of `--controllers`: `auto`, names, and names after a dash. A list without `auto` is exactly that list.
 * Throws an Error with one line for a name that is unknown or both on and off, and for a list that turns nothing on.
 */
export function parseControllers(items: readonly string[]): ControllerSelection {
  const on = new Set<ControllerName>()
  const off = new Set<ControllerName>()
  for (const item of items) {
    if (item === 'auto') continue
    const negated = item.startsWith('-')
    const name = negated ? item.slice(1) : item
    const set = negated ? off : on
    set.add(controllerNames.find((known) => known === name) ?? refuse(name))
  }
  const torn = [...on].find((name) => off.has(name))
  if (torn !== undefined) throw new TypeError(`turns ${torn} both on and off`)
  const auto = items.includes('auto')
  if (!auto && on.size === 0) throw new TypeError('turns nothing on: without auto, only what is named is on')
  return { auto, on: [...on], off: [...off] }
}

/** Whether a duty is asked for, as long as no server does it itself. */
export function isSelected({ auto, on, off }: ControllerSelection, name: ControllerName): boolean {
  return on.includes(name) || (auto && isUsual(name) && !off.includes(name))
}

/** Whether `auto` means it. */
function isUsual(name: ControllerName): boolean {
  return usualNames.some((usual) => usual === name)
}

/** The inverse of {@link parseControllers}. */
export function formatControllers({ auto, on, off }: ControllerSelection): string[] {
  return [...(auto ? ['auto'] : []), ...on, ...off.map((name) => `-${name}`)]
}

function refuse(name: string): never {
  const meant = didYouMean(name, controllerNames)
  const hint = meant === undefined ? '' : ` (did you mean ${meant}?)`
  throw new TypeError(
    `there is no controller ${JSON.stringify(name)}${hint}; known are auto, ${controllerNames.join(', ')}`,
  )
}
