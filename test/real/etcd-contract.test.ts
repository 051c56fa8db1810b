import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@connectrpc/connect'
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node'
import { connectEtcd } from '../../src/etcd/connect-etcd.ts'
import type { EtcdKv } from '../../src/etcd/kv.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import { KV } from '../../src/protobuf/gen/etcd/api/etcdserverpb/rpc_pb.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { type EtcdContractTarget, etcdContract } from '../etcd/contract.ts'
import { startEtcd } from '../peers/etcd.ts'
import { startKine } from '../peers/kine.ts'
import { openOwner } from '../peers/owner.ts'
import type { Cleanup } from '../support/cleanup.ts'

for (const { flavour, start } of [
  { flavour: 'etcd', start: startEtcd },
  { flavour: 'kine', start: startKine },
] as const) {
  describe(`the contract of EtcdKv, on a real ${flavour}`, () => {
    const owner = openOwner({ after })
    let url = ''
    let targets = 0

    before(async () => {
      url = (await start(owner)).url
    })

    etcdContract(test, (t) => targetOf(t, flavour, url, `/contract-${++targets}/`))
  })
}

function targetOf(t: Cleanup, flavour: EtcdContractTarget['flavour'], url: string, prefix: string): EtcdContractTarget {
  const another = (): EtcdKv => {
    const etcd = connectEtcd({ endpoints: [parseEndpoint(url)], clock: systemClock })
    t.after(() => etcd.close())
    return etcd
  }
  return {
    flavour,
    etcd: another(),
    another,
    prefix,
    pass: (ms) => sleep(ms),
    compact: (revision) => compact(url, revision),
  }
}

/** The program itself never compacts. */
async function compact(url: string, revision: bigint): Promise<void> {
  const sessionManager = new Http2SessionManager(url)
  try {
    await createClient(KV, createGrpcTransport({ baseUrl: url, sessionManager })).compact({ revision })
  } finally {
    sessionManager.abort()
  }
}
