import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ServerProbe } from '../../../src/kube/http-probe.ts'
import { probeServers } from '../../../src/verify/cluster/probe-servers.ts'

const signal = new AbortController().signal

async function dialled(listed: object): Promise<readonly string[]> {
  const asked: string[] = []
  const ask: ServerProbe = async ({ host, port }) => {
    asked.push(`${host} ${port}`)
    return { type: 'none', reason: 'no' }
  }
  const nothing = { endpoints: undefined, slices: [], service: undefined }
  await probeServers({ ask, targets: new Map() }, { ...nothing, ...listed }, signal)
  return asked
}

test('each address of both families is dialled once at its port', async () => {
  const endpoints = { subsets: [{ addresses: [{ ip: '192.0.2.1' }, { ip: '192.0.2.1' }], ports: [{ port: 6443 }] }] }
  const slice = { endpoints: [{ addresses: ['2001:db8::1'] }], ports: [{ port: 7443 }] }
  const slices = [
    { ...slice, metadata: { name: 'kubernetes-ipv6' } },
    { ...slice, metadata: { name: 'kubernetes-abcde' }, endpoints: [{ addresses: ['192.0.2.9'] }] },
  ]
  assert.deepEqual(await dialled({ endpoints, slices }), ['192.0.2.1 6443', '2001:db8::1 7443'])
  assert.deepEqual(await dialled({}), [])
})

test('addresses that no client can use are not dialled, because they may be this machine', async () => {
  const addresses = ['127.0.0.1', '169.254.169.254', '0.0.0.0', '224.0.0.1', 'example.com'].map((ip) => ({ ip }))
  assert.deepEqual(await dialled({ endpoints: { subsets: [{ addresses, ports: [{ port: 6443 }] }] } }), [])
})

test('of a thousand addresses at most 16 are dialled at a time', async () => {
  let open = 0
  let most = 0
  const ask: ServerProbe = async () => {
    most = Math.max(most, ++open)
    await new Promise((resolve) => setImmediate(resolve))
    open -= 1
    return { type: 'none', reason: 'no' }
  }
  const addresses = Array.from({ length: 1_000 }, (_, index) => ({ ip: `192.0.${index >> 8}.${index & 255}` }))
  const endpoints = { subsets: [{ addresses, ports: [{ port: 6443 }] }] }
  const probed = await probeServers(
    { ask, targets: new Map() },
    { endpoints, slices: [], service: undefined } as never,
    signal,
  )
  assert.equal(probed.length, 1_000)
  assert.equal(most, 16)
})
