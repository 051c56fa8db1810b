import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { startServer } from '../kube/loopback-server.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { tempDir } from '../support/temp-dir.ts'
import { runProgram, startProgram } from './command-line.ts'

/**
 * Clears the screen, sets the title, forges a line, reverses the text direction, hides a character, and starts a
 * control sequence of the C1 set.
 */
const hostile = 'node\u001b[2J\u001b]0;owned\u0007\nforged\r\u202e\u200b\u009b31m'
const shown = 'node\\u001b[2J\\u001b]0;owned\\u0007\\u000aforged\\u000d\\u202e\\u200b\\u009b31m'
/** Any character, except a line break, that a terminal would not simply display. */
const raw = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

let revision = 1

/** The lease of a master whose host has a hostile name. */
function lease(address: string, resourceVersion: number): object {
  const holder = {
    instanceId: '\u001b[31m-0000-4000-8000-000000000000',
    host: hostile,
    startedAt: '2026-01-01T00:00:00.000000Z',
    addresses: [address],
    ports: { securePort: 6443, nodePort: 0 },
    state: 'ready',
  }
  return {
    metadata: {
      name: `master-${address}`,
      namespace: 'kube-system',
      uid: address,
      resourceVersion: `${resourceVersion}`,
      labels: { 'apiserver-bootstrap/lease': 'master' },
      annotations: { 'apiserver-bootstrap/holder': JSON.stringify(holder) },
    },
    spec: { holderIdentity: address, leaseDurationSeconds: 1, renewTime: new Date().toISOString() },
  }
}

/** A cluster with one live master, and one that does not renew its lease. */
const cluster: RequestListener = (request, response) => {
  const items = [lease('192.0.2.1', 1), lease('192.0.2.2', ++revision)]
  const list = { apiVersion: 'coordination.k8s.io/v1', kind: 'LeaseList', metadata: { resourceVersion: '1' }, items }
  const [status, body] = request.url?.includes('/leases')
    ? [200, list]
    : [404, { ...refusal, code: 404, reason: 'NotFound' }]
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

const refusal = {
  kind: 'Status',
  apiVersion: 'v1',
  status: 'Failure',
  reason: 'Forbidden',
  code: 403,
  message: hostile,
}
const refusing: RequestListener = (_, response) =>
  void response.writeHead(403, { 'content-type': 'application/json' }).end(JSON.stringify(refusal))

suite('hostile names from a cluster', { concurrency: 2 }, () => {
  test('masters escapes them in the table', async (t) => {
    const { code, stdout, stderr } = await masters(t, cluster, [])
    assert.equal(code, 0, stderr.join('\n'))
    assert.doesNotMatch(stdout, raw)
    assert.ok(stdout.includes(` ${shown} `), stdout)
    assert.equal(stdout.split('\n').length, 4, 'a head, two rows, and the end')
  })

  test('masters --output json preserves them in JSON escapes', async (t) => {
    const { code, stdout, stderr } = await masters(t, cluster, ['--output=json'])
    assert.equal(code, 0, stderr.join('\n'))
    assert.doesNotMatch(stdout, raw)
    assert.equal(JSON.parse(stdout).masters[0].host, hostile)
  })

  test('masters --watch escapes them', async (t) => {
    const { url } = await startServer(t, cluster)
    const child = await startProgram(t, ['masters', '--watch', '--kubeconfig', await kubeconfig(t, url)])
    await child.output(/forged/)
    await child.stop()
    assert.doesNotMatch(child.stdout(), raw)
    assert.doesNotMatch(child.stderr(), raw)
  })

  test('masters evict escapes them', async (t) => {
    const { code, stdout, stderr } = await masters(t, cluster, ['evict', '192.0.2.1'])
    assert.equal(code, 0, stderr.join('\n'))
    assert.ok(stdout.startsWith('would remove ') && stdout.includes(`held by ${shown}`), stdout)
    assert.doesNotMatch(stdout, raw)
    assert.equal(stdout.split('\n').length, 2)
  })

  test('the message of an API server is escaped in a one-line error', async (t) => {
    const { code, stdout, stderr } = await masters(t, refusing, [])
    assert.deepEqual([code, stdout, stderr.length], [1, '', 1])
    assert.ok(stderr[0]?.includes('\\u202e\\u200b'), stderr[0])
    assert.doesNotMatch(stderr[0] ?? '', raw)
  })

  test('control characters in arguments and files are escaped', async (t) => {
    const file = join(await tempDir(t), 'x\u001b[2J.yaml')
    await writeFile(file, 'apiVersion: apiserver-bootstrap/v1alpha1\nkind: Drill\nname: "a\\e[31mb"\n"\\e]0;x\\a": 1\n')
    for (const args of [['drill', file], ['drill', 'no\u001b[2Jne'], ['run', '--no\u009b31m'], [`m\u202easters`]]) {
      const { stdout, stderr } = await runProgram(t, args)
      assert.ok(stderr.length > 0)
      assert.doesNotMatch(stdout + stderr.join('\n'), raw, args.join(' '))
    }
  })
})

async function masters(t: TestContext, listener: RequestListener, args: readonly string[]) {
  const { url } = await startServer(t, listener)
  const file = await kubeconfig(t, url)
  return runProgram(t, ['masters', ...args, '--kubeconfig', file])
}

async function kubeconfig(t: TestContext, url: URL): Promise<string> {
  return writeKubeconfig(join(await tempDir(t), 'config'), { server: url.href })
}
