import type { Datastore } from '../datastore.ts'
import { DrilledMember } from '../member.ts'
import type { EtcdRoute } from './etcd-link.ts'
import { SimulatedServer } from './link.ts'
import type { ProcessClock } from './process.ts'

/** The part of a member's state that follows from its API server, its etcd and the present life of its process. */
export abstract class SimulatedMember<Life extends { readonly clock: ProcessClock }> extends DrilledMember {
  readonly name: string
  readonly server: SimulatedServer
  readonly lives: Life[] = []
  life: Life | undefined
  abstract readonly etcd: EtcdRoute | undefined
  abstract readonly answering: boolean

  constructor(name: string, datastore: Datastore) {
    super()
    this.name = name
    this.server = new SimulatedServer(datastore)
  }

  get frozen(): boolean {
    return this.life?.clock.frozen === true
  }

  get ready(): boolean {
    return this.server.ready
  }

  get etcdFails(): boolean {
    const { ready, etcdCheck, storeless } = this.server
    return this.answering && ready && (!etcdCheck || storeless)
  }

  get storeFull(): boolean {
    return this.etcd?.full === true
  }

  get delayMs(): number {
    return Math.max(this.server.slowMs, this.etcd?.slowMs ?? 0)
  }

  get lifeCount(): number {
    return this.lives.length
  }

  get connectionResets(): number {
    return this.server.resets
  }
}
