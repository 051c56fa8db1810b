import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { suite, type TestContext, test } from 'node:test'
import { startServer } from '../kube/loopback-server.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { tempDir } from '../support/temp-dir.ts'
import { program } from './command-line.ts'

type Output = 'a full disk' | 'a closed pipe'

/**
 * Runs the program with a standard output or standard error that cannot be written. Returns the exit code and the lines
 * of standard error.
 */
async function runInto(
  t: TestContext,
  args: readonly string[],
  output: Output,
  stream: 'stdout' | 'stderr' = 'stdout',
) {
  const lost = output === 'a full disk' ? openSync('/dev/full', 'w') : ('pipe' as const)
  const [stdout, stderr] = stream === 'stdout' ? [lost, 'pipe' as const] : ['ignore' as const, lost]
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', stdout, stderr] })
  t.after(() => void child.kill('SIGKILL'))
  if (lost !== 'pipe') closeSync(lost)
  else child[stream]?.destroy()
  const [errors, [code]] = await Promise.all([
    stream === 'stdout' && child.stderr !== null ? text(child.stderr) : '',
    once(child, 'close') as Promise<[number | null]>,
  ])
  return { code, stderr: errors.split('\n').slice(0, -1) }
}

/** A cluster without a master. */
async function openCluster(t: TestContext): Promise<string> {
  const { url } = await startServer(t, (request, response) => {
    const isList = request.url?.includes('/leases')
    const body = isList
      ? { kind: 'LeaseList', metadata: { resourceVersion: '1' }, items: [] }
      : { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404 }
    response.writeHead(isList ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  return writeKubeconfig(join(await tempDir(t), 'kubeconfig'), { server: url.href })
}

const lines: Readonly<Record<Output, string>> = {
  'a full disk': 'apiserver-bootstrap: the output cannot be written: ENOSPC',
  'a closed pipe': 'apiserver-bootstrap: the reader of the output has gone',
}

const commands: readonly string[] = [
  '--help',
  'run --embedded --health-bind-address 127.0.0.1:0 --log-level error',
  'withdraw --advertise-address 192.0.2.1 --readyz-url http://127.0.0.1:1/readyz',
  'masters',
  'masters --output json --watch',
  'drill list',
  'drill graceful --output junit',
  'drill random --runs 2 --jobs 1',
  'config check --embedded',
  'config print --embedded',
]

suite('output that cannot be written', { concurrency: 2 }, () => {
  for (const command of commands) {
    for (const output of ['a full disk', 'a closed pipe'] as const) {
      test(`${command} with ${output} prints one error line and has exit code 1`, async (t) => {
        const args = command.split(' ')
        if (/^(masters|withdraw)/.test(command)) args.push('--kubeconfig', await openCluster(t))
        const { code, stderr } = await runInto(t, args, output)
        const own = stderr.filter((line) => !/^no leases of masters /.test(line))
        assert.deepEqual([code, own], [1, [lines[output]]])
      })
    }
  }

  for (const output of ['a full disk', 'a closed pipe'] as const) {
    test(`mistakes that cannot be printed because of ${output} still have exit code 2`, async (t) => {
      assert.equal((await runInto(t, ['config', 'check', '--nothing'], output, 'stderr')).code, 2)
    })
  }
})
