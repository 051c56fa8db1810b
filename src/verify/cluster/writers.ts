import { formatDuration } from '../../documents/duration.ts'
import { writerBetween } from '../../kube/managed-fields.ts'
import type { KubeObject } from '../../kube/resources.ts'
import {
  contentOf,
  isReconciler,
  OWN_MANAGER,
  TURN_OFF,
} from '../../kubernetes-service/guarded-writes/foreign-overwrites.ts'
import { byHand, type Command, type Finding, type Verdict, verdictOf } from './finding.ts'
import type { Parts } from './state.ts'

const UNKNOWN = 'an unknown writer (not in managedFields)'

interface ContentChange {
  readonly writer: string
  /** Whether the object had had the new content at an earlier moment. */
  readonly isReturn: boolean
}

/**
 * With several writers, one return to an earlier content is enough for a finding, because the reconciler of a
 * kube-apiserver writes only every ten seconds. All masters have the same field manager, so two returns are a finding
 * even if one manager made all changes.
 */
export function judgeWriters({ objectWrites: { states, forMs } }: Pick<Parts, 'objectWrites'>): Verdict {
  const time = formatDuration(forMs)
  const findings = [...states].flatMap(([object, seen]): readonly Finding[] => {
    const changes = changesIn(seen)
    const returns = changes.filter(({ isReturn }) => isReturn).length
    const byWriter = Map.groupBy(changes, ({ writer }) => writer)
    if (returns === 0 || (returns === 1 && byWriter.size === 1)) return []
    const who = [...byWriter].map(([writer, own]) => `${own.length} by ${writer}`).join(', ')
    const found = `changed ${changes.length} times in ${time} and back: ${who}`
    return [{ object, expected: 'what one writer writes stays', found, remedy: [remedyOf([...byWriter.keys()])] }]
  })
  return verdictOf(findings, `no writer overwrote ${states.size} objects in ${time}`)
}

function changesIn(states: readonly (KubeObject | undefined)[]): readonly ContentChange[] {
  const changes: ContentChange[] = []
  const known = new Set<string>()
  let before: KubeObject | undefined
  let content: string | undefined
  for (const state of states) {
    const next = contentOf(state)
    if (content !== undefined && next !== content) {
      const isSame = before?.metadata?.uid === state?.metadata?.uid
      const writer = state === undefined ? undefined : writerBetween(isSame ? before : undefined, state)?.manager
      changes.push({ writer: writer ?? UNKNOWN, isReturn: known.has(next) })
    }
    known.add(next)
    content = next
    before = state
  }
  return changes
}

function remedyOf(writers: readonly string[]): Command {
  if (writers.some(isReconciler) && writers.includes(OWN_MANAGER)) {
    return byHand(`an API server's own endpoint reconciler is on: ${TURN_OFF}`)
  }
  if (writers.every((writer) => writer === OWN_MANAGER)) {
    return byHand('give all masters the same options and the same lease store')
  }
  const audit = writers.includes(UNKNOWN) ? "; the API server's audit log names them" : ''
  return byHand(`stop all of them but one${audit}`)
}
