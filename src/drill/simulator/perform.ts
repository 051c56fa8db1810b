import type { MasterOptions } from '../../bootstrap/master-options.ts'
import { type Address, parseAddress } from '../../net/address.ts'
import { parseCidr } from '../../net/cidr.ts'
import type { MasterSettings } from '../scenario.ts'
import type { Primitive } from '../target.ts'
import { SimulatedKubeApiserver } from './kube-apiserver.ts'
import { SERVICE_RANGE } from './kube-apiserver-objects.ts'
import type { SimulatedMaster } from './master.ts'

const SERVICE_RANGES = { 4: SERVICE_RANGE, 6: parseCidr('fd00:10:96::/112') }

type OfOne = Extract<Primitive, { readonly master: string }>
type OfProcess = Extract<OfOne, { readonly part: unknown }>

/** Does one thing to one simulated member. */
export function performOn(member: SimulatedMaster | SimulatedKubeApiserver, primitive: OfOne): void {
  const { server, etcd } = member
  const isMaster = !(member instanceof SimulatedKubeApiserver)
  switch (primitive.type) {
    case 'start':
    case 'kill':
    case 'terminate':
    case 'freeze':
    case 'thaw':
      if (!isMaster) toKubeApiserver(member, primitive.type)
      else if (primitive.part === 'sidecar') toSidecar(member, primitive.type)
      else toServer(member, primitive.type)
      break
    case 'cut':
    case 'heal':
      if (isMaster || primitive.way !== 'api') cut(member, primitive.way, primitive.type === 'cut')
      break
    case 'slow':
      if (primitive.way === 'api') server.slowMs = primitive.byMs
      else if (etcd !== undefined) etcd.slowMs = primitive.byMs
      break
    case 'fault':
      if (isMaster) server.apply(primitive.rule)
      break
    case 'no-fault':
      server.faults.remove(primitive.rule)
      break
    case 'own-etcd':
      server.store.own = primitive.state
      // Of a kube-apiserver it is what its lease is in, too.
      if (isMaster) break
      if (primitive.state === 'ok') member.etcd.heal()
      else member.etcd.refused = true
      break
    case 'reset-connections':
      server.breakStreams()
      etcd?.breakStreams()
      break
    case 'readyz':
      server.ready = primitive.answer !== 'unready'
      server.silent = primitive.answer === 'hangs'
      server.etcdCheck = primitive.answer !== 'etcd-fails'
      break
    case 'clock-skew':
      if (isMaster) member.setWallClock(primitive.byMs)
      break
    case 'configure':
      if (isMaster) member.configure(optionsOf(primitive.settings))
      break
    case 'terminate-earlier':
      if (isMaster) member.terminateEarlier()
      break
    case 'retire':
      member.kill()
      server.kill()
      break
  }
}

function toSidecar(master: SimulatedMaster, type: OfProcess['type']): void {
  if (type === 'start') master.start()
  else master[type]()
}

function toServer({ server }: SimulatedMaster, type: OfProcess['type']): void {
  if (type === 'start') server.start()
  else if (type === 'freeze' || type === 'thaw') server.frozen = type === 'freeze'
  else server.kill()
}

/** It has one process only: whatever is done to its parts is done to that. */
function toKubeApiserver(one: SimulatedKubeApiserver, type: OfProcess['type']): void {
  if (type !== 'start') one[type]()
  else if (!one.running) {
    // Two of the same server cannot be: they listen on one port.
    one.kill()
    one.start()
  }
}

function cut(
  { server, etcd }: SimulatedMaster | SimulatedKubeApiserver,
  way: Extract<OfOne, { readonly type: 'cut' | 'heal' }>['way'],
  on: boolean,
): void {
  switch (way) {
    case 'api':
      if (on) server.cut = true
      else if (server.cut) server.heal()
      break
    case 'store':
      if (on && etcd !== undefined) etcd.cut = true
      else if (etcd?.cut) etcd.heal()
      break
    case 'server-store':
      server.store.cut = on
      break
    case 'clients':
      server.unreachable = on
      break
  }
}

/** A drill's settings as those of a master. */
export function optionsOf({ reconciler, addresses, ...settings }: MasterSettings): Partial<MasterOptions> {
  return {
    ...settings,
    ...(reconciler !== undefined && { endpointReconcilerType: reconciler }),
    ...(addresses !== undefined && addressOptions(addresses.map(parseAddress))),
  }
}

/** With a Service range of the family of each address, the first one's first. */
function addressOptions(
  advertiseAddresses: readonly Address[],
): Pick<MasterOptions, 'advertiseAddresses' | 'serviceClusterIpRanges'> {
  return { advertiseAddresses, serviceClusterIpRanges: advertiseAddresses.map(({ family }) => SERVICE_RANGES[family]) }
}
