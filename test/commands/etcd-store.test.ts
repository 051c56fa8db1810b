import assert from 'node:assert/strict'
import { closeSync, constants, openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { plainEndpoints } from '../../src/commands/etcd-store.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { makeHangingFile } from '../support/hanging-file.ts'
import { spawnChild } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'
import { eventually } from '../support/with-timeout.ts'
import { program, runProgram, startProgram } from './command-line.ts'

test('plainEndpoints returns the endpoints of remote etcd servers without TLS', () => {
  const [plain, plainIpv6] = ['http://etcd-1:2379', 'http://[2001:db8::1]:2379']
  const safe = [
    'https://etcd-1:2379',
    'unix:///run/etcd',
    'http://127.0.0.1:2379',
    'http://[::1]:2379',
    'http://localhost:2379',
  ]
  assert.deepEqual(plainEndpoints([plain, ...safe, plainIpv6].map(parseEndpoint)), [plain, plainIpv6])
})

/** Flags for an etcd whose certificate files hang. */
async function hangingFiles(t: TestContext): Promise<{ readonly cafile: string; readonly flags: readonly string[] }> {
  const directory = await tempDir(t)
  const cafile = join(directory, 'ca.crt')
  makeHangingFile(cafile)
  const kubeconfig = writeKubeconfig(join(directory, 'kubeconfig'), { server: 'http://127.0.0.1:1' })
  const etcd = ['--etcd-servers=https://127.0.0.1:1', `--etcd-cafile=${cafile}`]
  return { cafile, flags: [`--kubeconfig=${kubeconfig}`, '--advertise-address=192.0.2.1', ...etcd] }
}

suite('a file that hangs', { concurrency: 2 }, () => {
  const live = ['--target=live', '--yes', '--etcd-servers=http://127.0.0.1:1']
  for (const [command, flag] of [
    [['masters'], '--kubeconfig'],
    [['masters', 'evict', '192.0.2.1'], '--kubeconfig'],
    [['verify'], '--kubeconfig'],
    [['drill', 'crash', ...live], '--kubeconfig'],
    [['serve'], '--crd'],
  ] as const) {
    test(`does not delay the end of ${command.slice(0, 2).join(' ')} by SIGTERM`, async (t) => {
      const file = join(await tempDir(t), 'file')
      makeHangingFile(file)
      await endedBySignal(t, file, [...command, flag, file])
    })
  }
})

suite('a certificate file that hangs', { concurrency: 2 }, () => {
  test('ends a command after 5 s with exit code 2 and one line', async (t) => {
    const { cafile, flags } = await hangingFiles(t)
    const { code, stderr } = await runProgram(t, [
      'withdraw',
      ...flags,
      `--etcd-certfile=${cafile}`,
      `--etcd-keyfile=${cafile}`,
    ])
    assert.deepEqual({ code, stderr }, { code: 2, stderr: [`--etcd-cafile: ${cafile} cannot be read within 5 s`] })
  })

  test('does not delay the end by SIGTERM of the first process of a container, for which the kernel ignores it', async (t) => {
    const { cafile, flags } = await hangingFiles(t)
    const asFirst = ['--pid', '--fork', '--kill-child', process.execPath, program, 'run', ...flags]
    const unshare = await spawnChild(t, 'unshare', asFirst)
    await openWhenRead(t, cafile)
    const [pid] = (await readFile(`/proc/${unshare.pid}/task/${unshare.pid}/children`, 'utf8')).split(' ')
    process.kill(Number(pid), 'SIGTERM')
    assert.deepEqual(await unshare.exited, { code: 143, signal: null })
  })

  for (const command of ['run', 'withdraw']) {
    test(`does not delay the end of ${command} by SIGTERM`, async (t) => {
      const { cafile, flags } = await hangingFiles(t)
      await endedBySignal(t, cafile, [command, ...flags])
    })
  }
})

/** Asserts that SIGTERM ends the program at once while it reads the pipe `file`. */
async function endedBySignal(t: TestContext, file: string, args: readonly string[]): Promise<void> {
  const started = await startProgram(t, args)
  await openWhenRead(t, file)
  started.kill('SIGTERM')
  assert.deepEqual(await started.exited, { code: null, signal: 'SIGTERM' })
  assert.equal(started.stderr(), '')
}

/** Opens a pipe as soon as it is being read. As long as it is open here, reading it hangs. */
async function openWhenRead(t: TestContext, file: string): Promise<void> {
  const pipe = await eventually('a reading of the pipe', () => {
    try {
      return openSync(file, constants.O_WRONLY | constants.O_NONBLOCK)
    } catch {
      return undefined
    }
  })
  t.after(() => closeSync(pipe))
}
