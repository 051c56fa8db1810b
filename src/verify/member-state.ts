/** The true state of one member of a fleet. Its settings are those of its present life, or else of its last. */
export interface MemberState {
  readonly name: string
  /** The address in Endpoints. Members behind one virtual address share it. */
  readonly address: string
  /** A kube-apiserver keeps its own lease, and acts at its ticks only. */
  readonly kind: 'apiserver-bootstrap' | 'kube-apiserver'
  readonly leaseTtlMs: number
  readonly reconcileIntervalMs: number
  readonly withdrawsOnStop: boolean
  /** Whether it withdraws its address on a stop even if its server still answers and the list is then empty. */
  readonly withdrawsEvenIfLast: boolean
  readonly leavesWhenUnready: boolean
  /** Whether it runs, and was neither stopped nor frozen. */
  readonly running: boolean
  /** Whether it was stopped, even if it has ended by now. */
  readonly stopping: boolean
  /** Whether its process has ended, or has not begun. Of the two processes of a master, the sidecar counts. */
  readonly ended: boolean
  readonly frozen: boolean
  /** Whether it can read and write all that it needs; after an outage, only once its server has accepted a write. */
  readonly connected: boolean
  /** How much longer than usual each message to its API server, or to its lease store, takes. In milliseconds. */
  readonly delayMs: number
  /** Whether its server answers /readyz, ready or not. */
  readonly answering: boolean
  /** Whether its /readyz is ready, except perhaps for its `etcd` check. */
  readonly ready: boolean
  /** Whether its /readyz is ready and its API server reaches its datastore. */
  readonly serves: boolean
  /** Whether its server answers, and only the checks of etcd fail. */
  readonly etcdFails: boolean
  /** Requests to its server. `rest`: some fail, but it renews its lease. `lease`: renewals may fail for too long. */
  readonly impaired: 'no' | 'rest' | 'lease'
  /** What a client gets at its port. */
  readonly clientConnections: 'served' | 'refused' | 'black-holed'
  /** Whether it runs, is connected, and its server is ready, so that clients may rely on it. */
  readonly healthy: boolean
  /** Whether the member may still renew its lease. */
  readonly renewing: boolean
  readonly storeFull: boolean
  readonly lifeCount: number
  /** Whether its server has answered in its present life that it is ready; undefined without a life. */
  readonly hasBeenReady: boolean | undefined
  readonly connectionResets: number
  /** The error with which its present life ended; undefined if it did not fail. */
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

/** Whether a member with the same name, kind and address is in the same state. */
export function hasSameState(one: MemberState, other: MemberState): boolean {
  return (
    one.running === other.running &&
    one.healthy === other.healthy &&
    one.renewing === other.renewing &&
    one.lifeCount === other.lifeCount &&
    one.stopping === other.stopping &&
    one.ended === other.ended &&
    one.frozen === other.frozen &&
    one.connected === other.connected &&
    one.connectionResets === other.connectionResets &&
    one.delayMs === other.delayMs &&
    one.answering === other.answering &&
    one.ready === other.ready &&
    one.serves === other.serves &&
    one.etcdFails === other.etcdFails &&
    one.impaired === other.impaired &&
    one.clientConnections === other.clientConnections &&
    one.hasBeenReady === other.hasBeenReady &&
    one.storeFull === other.storeFull &&
    one.leaseTtlMs === other.leaseTtlMs &&
    one.reconcileIntervalMs === other.reconcileIntervalMs &&
    one.withdrawsOnStop === other.withdrawsOnStop &&
    one.withdrawsEvenIfLast === other.withdrawsEvenIfLast &&
    one.leavesWhenUnready === other.leavesWhenUnready &&
    one.failure === other.failure
  )
}
