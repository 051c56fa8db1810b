import { didYouMean } from '../documents/did-you-mean.ts'
import { formatDuration } from '../documents/duration.ts'
import { absentNames, type Names } from './absent-names.ts'
import type { MappingReader } from './mapping-reader.ts'
import { isSuccessorName, mayComeLater } from './member-names.ts'
import type { PlacedStep } from './placed-step.ts'
import type { Chosen, FleetPlan, Step } from './scenario.ts'
import type { ActionName } from './step-schema.ts'

/** Notes what is wrong with the names of masters in the fleet. Of doubtful ones nothing is said. */
export function checkNames(reader: MappingReader, { masters }: FleetPlan): void {
  const doubtful = doubtfulNames(reader, masters)
  for (const [index, { name }] of masters.entries()) {
    if (doubtful[index]) continue
    const path = ['fleet', 'masters', index, 'name']
    const others = masters.filter((_, other) => other !== index && !doubtful[other])
    if (masters.findIndex((other) => other.name === name) < index && others.some((other) => other.name === name)) {
      reader.wrong(path, `${name} is the name of two masters`)
    }
    const before = others.find((other) => isSuccessorName(name, other.name))
    if (before === undefined) continue
    reader.wrong(path, `${name} is what the master in the place of ${before.name} is called; choose another name`)
  }
}

/**
 * Notes where steps, in the order of their times, name somebody who is not there then. Nothing is said that another mistake may be the
 * cause of: after a doubtful step that brings or sends away masters, only names that nobody ever has are wrong.
 */
export function checkChosen(reader: MappingReader, fleet: FleetPlan, placed: readonly PlacedStep[]): void {
  const { masters } = fleet
  const areKnown = masters.length > 0 && !doubtfulNames(reader, masters).includes(true)
  const doubtful = new Set(placed.filter(({ isWhole }) => !isWhole).map(({ step }) => step))
  const names = absentNames({ fleet, steps: placed.map(({ step }) => step) }, doubtful)
  const isChangeInDoubt = ({ meant, isWhole }: PlacedStep): boolean => !isWhole && changesWhoIsThere(meant)
  const isTimeInDoubt = ({ path }: PlacedStep): boolean => reader.isDoubtful(...path, 'at')
  let isSure = !placed.some((one) => isChangeInDoubt(one) && isTimeInDoubt(one))
  for (const one of placed) {
    const { step, path } = one
    const chosen = 'masters' in step && step.masters !== 'all' ? step.masters : []
    for (const [index, name] of chosen.entries()) {
      const at = [...path, 'masters', index]
      const why = areKnown ? whyAbsent(name, step, names, isSure && !isTimeInDoubt(one)) : undefined
      if (chosen.indexOf(name) < index) reader.wrong(at, `${name} is named twice`)
      else if (why !== undefined) reader.wrong(at, `there is no master ${JSON.stringify(name)}${why}`)
    }
    const isNobody = changesWhoIsThere(one.meant) && reader.isDoubtful(...path, 'masters')
    if (isChangeInDoubt(one) || isNobody) isSure = false
  }
}

/** Whether a master is among those chosen: by its name, or by that of somebody in whose place it came, or who came in its. */
export function isAmong(chosen: Chosen, name: string): boolean {
  if (chosen === 'all' || chosen.includes(name)) return true
  return chosen.some((one) => isSuccessorName(one, name) || isSuccessorName(name, one))
}

function doubtfulNames(reader: MappingReader, masters: FleetPlan['masters']): readonly boolean[] {
  return masters.map((_, index) => reader.isDoubtful('fleet', 'masters', index, 'name'))
}

/** An unknown action may. */
function changesWhoIsThere(action: ActionName | undefined): boolean {
  return action === undefined || action === 'replace' || action === 'scale'
}

/** The rest of the sentence that there is no master of this name; undefined where there is one, or may be. */
function whyAbsent(name: string, step: Step, { absent, comesMs, goesMs }: Names, isSure: boolean): string | undefined {
  if (absent.get(step)?.includes(name) !== true) return undefined
  if (!isSure && (comesMs.has(name) || mayComeLater(name))) return undefined
  const isGone = (one: string): boolean => (goesMs.get(one) ?? step.atMs) < step.atMs
  if (isGone(name)) {
    const there = [...comesMs].filter(([one, ms]) => ms <= step.atMs && !isGone(one)).map(([one]) => one)
    const goneAt = formatDuration(goesMs.get(name) ?? 0)
    return ` after ${goneAt}, when scale sends it away; there are ${there.join(', ')} then`
  }
  const fromMs = comesMs.get(name)
  if (fromMs !== undefined) return ` until after ${formatDuration(fromMs)}`
  const known = [...comesMs.keys()]
  const meant = didYouMean(name, known)
  return meant === undefined ? `; there are ${known.join(', ')}` : `; did you mean ${meant}?`
}
