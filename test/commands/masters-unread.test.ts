import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { startServer } from '../kube/loopback-server.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { tempDir } from '../support/temp-dir.ts'
import { program } from './command-line.ts'

/** Their list is longer than what a pipe holds. */
const MASTERS = 2_000

test('masters --watch drops states while its reader pauses, and shows the current state when the reader resumes', async (t) => {
  let reads = 0
  const { url } = await startServer(t, (request, response) => {
    const isLeases = request.url?.includes('/leases')
    const body = isLeases ? leasesOf(++reads) : { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404 }
    response.writeHead(isLeases ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  const file = writeKubeconfig(join(await tempDir(t), 'config'), { server: url.href })
  const child = spawn(process.execPath, [program, 'masters', '--watch', '--output=json', `--kubeconfig=${file}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => void child.kill('SIGKILL'))
  while (reads < 6) await sleep(100)
  const unread = reads
  const shown = new Set<number>()
  let rest = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const lines = `${rest}${text}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) shown.add(Number(JSON.parse(line).masters[0].host))
  })
  while (![...shown].some((read) => read > unread)) await sleep(50)
  const missed = Array.from({ length: unread - 2 }, (_, index) => index + 2).filter((read) => !shown.has(read))
  assert.ok(shown.has(1), [...shown].join())
  assert.notDeepEqual(missed, [], 'all states of the pause were shown')
  child.kill('SIGTERM')
  await once(child, 'close')
})

function leasesOf(read: number): object {
  const items = Array.from({ length: MASTERS }, (_, index) => {
    const address = `192.0.${index >> 8}.${index & 255}`
    const holder = {
      instanceId: `${read}-${index}`,
      host: `${read}`,
      startedAt: '2026-01-01T00:00:00.000000Z',
      addresses: [address],
      ports: { securePort: 6443, nodePort: 0 },
      state: 'ready',
    }
    const metadata = {
      name: `master-${index}`,
      namespace: 'kube-system',
      uid: `${index}`,
      resourceVersion: `${read}`,
      labels: { 'apiserver-bootstrap/lease': 'master' },
      annotations: { 'apiserver-bootstrap/holder': JSON.stringify(holder) },
    }
    return {
      metadata,
      spec: { holderIdentity: address, leaseDurationSeconds: 15, renewTime: new Date().toISOString() },
    }
  })
  return { apiVersion: 'coordination.k8s.io/v1', kind: 'LeaseList', metadata: { resourceVersion: `${read}` }, items }
}
