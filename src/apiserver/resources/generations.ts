import { equalJson } from '../../runtime/equal-json.ts'
import type { Draft } from '../kind.ts'
import type { StoredObject } from '../store.ts'

export function withFirstGeneration(draft: Draft): Draft {
  return { ...draft, metadata: { ...draft.metadata, generation: 1 } }
}

/** The draft of an update: with the next generation, unless the content is the same as before (`isSame`). */
export function withGeneration(draft: Draft, live: StoredObject, isSame = hasSameContent(draft, live)): Draft {
  return isSame ? draft : { ...draft, metadata: { ...draft.metadata, generation: (live.metadata.generation ?? 0) + 1 } }
}

/** Whether an update changes nothing outside of metadata and status. */
export function hasSameContent(draft: Draft, live: Draft): boolean {
  const { kind: _kind, apiVersion: _apiVersion, metadata: _metadata, status: _status, ...content } = draft
  const { kind: _liveKind, apiVersion: _liveVersion, metadata: _liveMeta, status: _liveStatus, ...liveContent } = live
  return equalJson(content, liveContent)
}
