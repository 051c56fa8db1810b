import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { connectEtcd } from '../../src/etcd/connect-etcd.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { serviceRange, startApiserver } from '../peers/apiserver.ts'
import type { Etcd } from '../peers/etcd.ts'
import { startKine } from '../peers/kine.ts'
import { openOwner, temporaryDirectory } from '../peers/owner.ts'
import { RunningProcess } from '../peers/process.ts'
import { type Program, programPath } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'
import { startDrill } from './drill-world.ts'

const scenario = `apiVersion: apiserver-bootstrap/v1alpha1
kind: Drill
description: For a test.
name: private
fleet: { masters: 1 }
duration: 5s
steps: []
`

describe('a live drill on a store at a private socket', () => {
  const owner = openOwner({ after })

  for (const [reconciler, ...flags] of [['lease', '--lease-store=etcd'], ['kube-apiserver']]) {
    test(`passes with ${reconciler}, and none of its ports gives access to the store`, async () => {
      const kine = await startKine(owner, { unixSocket: true })
      const etcd = kine as unknown as Etcd
      const server = await startApiserver(owner, { kind: 'bare', etcd })
      const drill = await startDrill(owner, { server, etcd }, scenario, [
        '--yes',
        `--reconciler=${reconciler}`,
        ...flags,
      ])
      const ports = await untilPasses(
        'the fleet',
        () => {
          assert.match(drill.process.tail(100), / listed$/m)
          return portsOf(drill)
        },
        { withinMs: 60_000 },
      )
      assert.notDeepEqual(ports, [])
      for (const port of ports) assert.match(await get(`http://127.0.0.1:${port}`), /^failed/)
      assert.equal(await get(kine.url), 'done', 'as who may use the socket reaches it')
      const { code } = await drill.process.exited
      assert.equal(code, 0, drill.process.tail(60))
    })
  }

  test('passes with special characters in TMPDIR, leaves nothing there, and reports a TMPDIR that allows no socket', async () => {
    const kine = await startKine(owner, { unixSocket: true })
    const server = await startApiserver(owner, { kind: 'bare', etcd: kine as unknown as Etcd })
    const parent = temporaryDirectory(owner, 'tmp')
    const file = join(parent, 'scenario.yaml')
    writeFileSync(file, scenario)
    const flags = ['--target=live', '--yes', `--kubeconfig=${server.kubeconfig}`, `--etcd-servers=${kine.url}`]
    const drillIn = async (name: string, reconciler: string): Promise<RunningProcess> => {
      const directory = join(parent, name)
      mkdirSync(directory, { recursive: true })
      const range = `--service-cluster-ip-range=${serviceRange}`
      const args = [programPath(), 'drill', file, ...flags, range, `--reconciler=${reconciler}`]
      const env = { TMPDIR: directory }
      const drill = await RunningProcess.start(owner, { name: 'drill', command: process.execPath, args, env })
      await drill.exited
      await untilPasses('an empty directory', () => assert.deepEqual(readdirSync(directory), []), { withinMs: 10_000 })
      return drill
    }
    for (const reconciler of ['lease', 'kube-apiserver']) {
      const drill = await drillIn("a b's $(x)", reconciler)
      assert.equal((await drill.exited).code, 0, drill.tail(60))
    }
    const refused = await drillIn('a,b', 'lease')
    assert.equal((await refused.exited).code, 1)
    assert.match(refused.tail(1), /^apiserver-bootstrap: .*no socket can be in .*a,b.*: give another TMPDIR$/)
  })
})

/** The ports on which a process listens, at any address. */
function portsOf({ process: { pid } }: Program): readonly number[] {
  const open = readdirSync(`/proc/${pid}/fd`).map((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`)
    } catch {
      return ''
    }
  })
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/net/${table}`, 'utf8')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode]) => state === '0A' && open.includes(`socket:[${inode}]`))
      .map(([, local]) => Number.parseInt(local?.split(':')[1] ?? '', 16)),
  )
}

async function get(url: string): Promise<string> {
  const kv = connectEtcd({ endpoints: [parseEndpoint(url)], clock: systemClock, requestTimeoutMs: 1_000 })
  try {
    await kv.get('/registry/health', new AbortController().signal)
    return 'done'
  } catch (error) {
    return `failed: ${error}`
  } finally {
    await kv.close()
  }
}
