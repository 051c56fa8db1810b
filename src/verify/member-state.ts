/**
 * What is true of one member of a fleet at this moment, for those who judge whether it is rightly listed. Settings are those of its
 * present life, or of the last while there is none.
 */
export interface MemberState {
  readonly name: string
  /** The one in Endpoints. Members behind one virtual address have the same. */
  readonly address: string
  /** A kube-apiserver keeps its own lease, and acts at its ticks only. */
  readonly kind: 'apiserver-bootstrap' | 'kube-apiserver'
  readonly leaseTtlMs: number
  readonly reconcileIntervalMs: number
  /** Whether it takes its address out when it is told to stop. */
  readonly withdrawsOnStop: boolean
  /** Whether it does so even when the list is empty then, although its server still answers. */
  readonly withdrawsLast: boolean
  /** Whether it leaves while its API server is not ready. */
  readonly leavesWhenUnready: boolean
  /** Runs, and nobody has told it to stop. */
  readonly running: boolean
  /** Was told to stop, whether or not it has ended by now. */
  readonly stopping: boolean
  /** No process of it is left, or there has been none yet; of a master's two processes the sidecar is meant. */
  readonly ended: boolean
  readonly frozen: boolean
  /** Reads and writes whatever it needs; after an outage, once its API server has taken a write again. */
  readonly connected: boolean
  /** How much longer than usual each message to its API server, or to what it stores its lease in, takes. */
  readonly delayMs: number
  /** Its /readyz is answered, whatever the answer. */
  readonly answering: boolean
  /** Its /readyz says that it is ready, but perhaps for its `etcd` check. */
  readonly ready: boolean
  /** Its /readyz says that it is ready, and its API server reaches what it stores into. */
  readonly serves: boolean
  /** Of an answering server the checks of etcd fail, and no other. */
  readonly etcdFails: boolean
  /**
   * What becomes of its requests to its own API server. `rest`: some fail, but it can renew its lease all the same; `lease`: it may be
   * kept from that for longer than it can bear.
   */
  readonly impaired: 'no' | 'rest' | 'lease'
  /** What a client meets at its own port. */
  readonly clientsMeet: 'served' | 'refused' | 'black-holed'
  /** Runs, is connected, and its server is ready: what clients may count on. */
  readonly well: boolean
  /** May still renew its lease. */
  readonly renewing: boolean
  /** What it stores its lease in takes nothing new. */
  readonly storeFull: boolean
  /** How often it was started. */
  readonly lifeCount: number
  /** In its present life its server has told it that it is ready; undefined while it has none. */
  readonly hasBeenReady: boolean | undefined
  /** How often all its connections to its server were reset. */
  readonly connectionResets: number
  /** What its present life ended with, if it failed. */
  readonly failure: unknown
}
