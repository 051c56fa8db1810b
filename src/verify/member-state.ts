/** The true state of one member of a fleet. The settings are those of the present life, or else of the last life. */
export interface MemberState {
  readonly name: string
  /** The address in Endpoints. Members behind one virtual address share it. */
  readonly address: string
  /** A kube-apiserver maintains the list with its own reconciler, which acts only at its ticks. */
  readonly kind: 'apiserver-bootstrap' | 'kube-apiserver'
  readonly leaseTtlMs: number
  readonly reconcileIntervalMs: number
  readonly withdrawsOnStop: boolean
  /** Whether the member, when stopped, withdraws its address even if its server answers and the list is then empty. */
  readonly withdrawsEvenIfLast: boolean
  readonly leavesWhenUnready: boolean
  /** Whether the member runs: its process exists, and is neither stopping nor frozen. */
  readonly running: boolean
  /** Whether the member has received SIGTERM, even if it has ended by now. False after SIGKILL. */
  readonly stopping: boolean
  /** Whether the process has ended, or has not begun. Of the two processes of a master, the sidecar counts. */
  readonly ended: boolean
  readonly frozen: boolean
  /** Whether the member can read and write what it needs; after an outage, once its server can write again. */
  readonly connected: boolean
  /** How much longer than usual each message to the API server or to the lease store takes, in milliseconds. */
  readonly delayMs: number
  /** Whether the server answers /readyz, ready or not. */
  readonly answering: boolean
  /** Whether the checks of /readyz succeed, except perhaps those of etcd. */
  readonly ready: boolean
  /** Whether /readyz is ready and the API server reaches its datastore. */
  readonly serves: boolean
  /** Whether the server answers, and only the checks of etcd fail. */
  readonly etcdFails: boolean
  /**
   * Whether a fault affects requests to the server. `rest`: some fail, but the lease is renewed. `lease`: renewals may
   * fail for too long.
   */
  readonly impaired: 'no' | 'rest' | 'lease'
  /**
   * How many requests, watches and events of the member a fault has hit so far. It is a count and no state: a member
   * whose count alone grows is still in the same state.
   */
  readonly disturbances: number
  /** What a client gets at the server's port. */
  readonly clientConnections: 'served' | 'refused' | 'black-holed'
  /** Whether the member runs and is connected, and its server is ready, so that clients may rely on the server. */
  readonly healthy: boolean
  /** Whether the member may still renew its lease. */
  readonly renewing: boolean
  readonly storeFull: boolean
  readonly lifeCount: number
  /** Whether the server has answered, in the present life of the member, that it is ready; undefined without a life. */
  readonly hasBeenReady: boolean | undefined
  readonly connectionResets: number
  /** The error that ended the present life; undefined without one. */
  readonly failure: unknown
}

export function snapshotOf(member: MemberState): MemberState {
  return {
    name: member.name,
    address: member.address,
    kind: member.kind,
    leaseTtlMs: member.leaseTtlMs,
    reconcileIntervalMs: member.reconcileIntervalMs,
    withdrawsOnStop: member.withdrawsOnStop,
    withdrawsEvenIfLast: member.withdrawsEvenIfLast,
    leavesWhenUnready: member.leavesWhenUnready,
    running: member.running,
    stopping: member.stopping,
    ended: member.ended,
    frozen: member.frozen,
    connected: member.connected,
    delayMs: member.delayMs,
    answering: member.answering,
    ready: member.ready,
    serves: member.serves,
    etcdFails: member.etcdFails,
    impaired: member.impaired,
    disturbances: member.disturbances,
    clientConnections: member.clientConnections,
    healthy: member.healthy,
    renewing: member.renewing,
    storeFull: member.storeFull,
    lifeCount: member.lifeCount,
    hasBeenReady: member.hasBeenReady,
    connectionResets: member.connectionResets,
    failure: member.failure,
  }
}

/** Whether a member is still in the state of its snapshot. The count of `disturbances` is no state. */
export function hasSameState(member: MemberState, snapshot: MemberState): boolean {
  const now = snapshotOf(member)
  for (const key of Object.keys(now) as (keyof MemberState)[]) {
    if (key !== 'disturbances' && now[key] !== snapshot[key]) return false
  }
  return true
}
