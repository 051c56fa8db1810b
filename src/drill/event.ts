import type { MemberStatus } from './member-status.ts'

/**
 * Something that was seen during a drill; `atMs` is true time since the moment that everybody was listed, negative before. Together in
 * their order they are the drill's history: figures, transcript and page are made of them alone. Plain JSON; codes only, no messages of
 * engines or libraries, so that one seed gives one history on every Node.
 */
export type DrillEvent = { readonly atMs: number } & (
  | { readonly type: 'step'; readonly action: string; readonly masters: readonly string[]; readonly text: string }
  /** A member is otherwise than before. */
  | ({ readonly type: 'state'; readonly master: string } & MemberStatus)
  /** A version of an object; `addresses` undefined when it is gone. */
  | {
      readonly type: 'listed'
      readonly object: 'endpoints' | 'slice'
      readonly addresses: readonly string[] | undefined
      readonly by: string | undefined
      readonly damage: boolean
    }
  /** Whose leases are in the store, addresses in order; twice where two masters have one each. Not seen with `none` and `master-count`. */
  | { readonly type: 'leases'; readonly addresses: readonly string[] }
  /** A write of a member to the API server, its leases included, where writes are seen one by one. */
  | { readonly type: 'write'; readonly master: string; readonly method: string; readonly path: string }
  /** A client's connection that began now; for `nobody` the address is empty. Served ones are counted by `served`. */
  | {
      readonly type: 'connection'
      readonly client: string
      readonly address: string
      readonly outcome: ConnectionOutcome
    }
  /** So many connections that began in the second from `atMs` on were served; one event for each second in which any was. */
  | { readonly type: 'served'; readonly count: number }
  | { readonly type: 'violation'; readonly invariant: string; readonly detail: string }
)

/** `nobody`: the client knew no address. */
export type ConnectionOutcome = 'served' | 'refused' | 'black-holed' | 'nobody'

export type EventOf<Type extends DrillEvent['type']> = Extract<DrillEvent, { readonly type: Type }>
