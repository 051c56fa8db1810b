import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { CertificateAuthority } from '../peers/certificates.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import type { Cleanup } from '../support/cleanup.ts'
import { tempDir } from '../support/temp-dir.ts'
import { runProgram } from './command-line.ts'

/** A kubeconfig for an address at which no server listens: every connection fails. */
async function kubeconfigFor(t: Cleanup, server: string): Promise<string> {
  const file = join(await tempDir(t), 'kubeconfig')
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'a', cluster: { server } }],
    contexts: [{ name: 'blue', context: { cluster: 'a', user: '' } }],
    'current-context': 'blue',
  }
  await writeFile(file, JSON.stringify(config))
  return file
}

const advertised = ['--advertise-address', '192.0.2.1']

suite('config check', { concurrency: 2 }, () => {
  test('a valid configuration is OK without a running server', async (t) => {
    const file = await kubeconfigFor(t, 'https://127.0.0.1:1')
    const { code, stdout, stderr } = await runProgram(t, ['config', 'check', '--kubeconfig', file, ...advertised])
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: 'OK\n', stderr: [] })
  })

  test('a missing kubeconfig or context, and --in-cluster outside a Pod, are reported in one line', async (t) => {
    const file = await kubeconfigFor(t, 'https://127.0.0.1:1')
    const missing = await runProgram(t, ['run', '--kubeconfig', `${file}.none`, ...advertised])
    assert.deepEqual([missing.code, missing.stderr], [2, [`--kubeconfig: kubeconfig ${file}.none: no such file`]])
    const context = await runProgram(t, ['withdraw', '--kubeconfig', file, '--context', 'green', ...advertised])
    assert.deepEqual([context.code, context.stderr.length], [2, 1])
    assert.match(context.stderr[0] ?? '', /^--kubeconfig: .*context "green" does not exist/)
    const outside = await runProgram(t, ['run', '--in-cluster', ...advertised])
    assert.deepEqual([outside.code, outside.stderr.length], [2, 1])
    assert.match(outside.stderr[0] ?? '', /^--in-cluster: not in a Pod/)
  })

  test('a missing, invalid or mismatched certificate for etcd or the health address is reported in one line', async (t) => {
    const directory = await tempDir(t)
    const put = async (name: string, text: string): Promise<string> => {
      await writeFile(join(directory, name), text)
      return join(directory, name)
    }
    const { certificate, key } = new CertificateAuthority().issue({ commonName: 'root' })
    const [certfile, keyfile] = await Promise.all([put('tls.crt', certificate), put('tls.key', key)])
    const otherKey = await put('other.key', new CertificateAuthority().issue({ commonName: 'root' }).key)
    const garbage = await put('garbage', 'no certificate')
    const check = async (...flags: readonly string[]) => {
      const etcd = ['--etcd-servers', 'https://127.0.0.1:1']
      const { code, stderr } = await runProgram(t, ['config', 'check', '--embedded', ...etcd, ...flags])
      return [code, ...stderr.map((line) => line.replaceAll(directory, ''))]
    }
    assert.deepEqual(await check('--etcd-certfile', certfile, '--etcd-keyfile', keyfile), [0])
    assert.deepEqual(await check('--etcd-cafile', join(directory, 'none')), [2, '--etcd-cafile: /none does not exist'])
    for (const flags of [
      ['--etcd-cafile', garbage],
      ['--etcd-certfile', certfile, '--etcd-keyfile', otherKey],
      ['--health-tls-cert-file', garbage, '--health-tls-private-key-file', keyfile],
      ['--health-tls-cert-file', certfile, '--health-tls-private-key-file', otherKey],
    ]) {
      const [code, line, ...more] = await check(...flags)
      assert.deepEqual([code, more], [2, []])
      assert.match(String(line), new RegExp(`^${flags[0]}: /.* cannot be used: `))
    }
  })

  test("a server that may be another master's requires --readyz-url", async (t) => {
    const balanced = [
      'config',
      'check',
      '--kubeconfig',
      await kubeconfigFor(t, 'https://balancer.example:6443'),
      ...advertised,
    ]
    const refused = await runProgram(t, balanced)
    assert.deepEqual([refused.code, refused.stderr.length], [2, 1])
    assert.match(
      refused.stderr[0] ?? '',
      /^--readyz-url: is required: the kubeconfig's server, https:\/\/balancer\.example:6443,/,
    )
    const given = await runProgram(t, [...balanced, '--readyz-url', 'https://balancer.example:6443/readyz'])
    assert.equal(given.code, 0, given.stderr.join())
  })

  test('without the controller of default/kubernetes --readyz-url is not required', async (t) => {
    const kubeconfig = await kubeconfigFor(t, 'https://balancer.example:6443')
    const flags = ['--kubeconfig', kubeconfig, '--controllers=endpoints']
    const { code, stdout, stderr } = await runProgram(t, ['config', 'check', ...flags])
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: 'OK\n', stderr: [] })
  })

  test('a missing token file is reported', async (t) => {
    const tokenFile = join(await tempDir(t), 'token')
    const server = 'https://127.0.0.1:1'
    const kubeconfig = writeKubeconfig(join(await tempDir(t), 'kubeconfig'), { server, tokenFile })
    const { code, stderr } = await runProgram(t, ['config', 'check', '--kubeconfig', kubeconfig, ...advertised])
    assert.deepEqual([code, stderr.length], [2, 1])
    assert.match(stderr[0] ?? '', /^--kubeconfig: .*token.*no such file/)
  })
})
