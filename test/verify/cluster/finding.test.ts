import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { byHand, kubectl, kubectlCreate, shellLine } from '../../../src/verify/cluster/finding.ts'

const flags = { kubectl: ['--kubeconfig=/a file'], 'apiserver-bootstrap': [] }

test('shellLine joins commands in one line, with the connection flags', () => {
  const [removed, created] = [kubectl('delete', 'services', 'a'), kubectlCreate({ kind: 'Service' })]
  assert.equal(
    shellLine([removed, created], flags),
    `kubectl delete services a '--kubeconfig=/a file' && printf %s '{"kind":"Service"}' | kubectl create --filename=- '--kubeconfig=/a file'`,
  )
})

test('manual steps become a comment after the commands', () => {
  const commands = [byHand('first stop it'), kubectl('version'), kubectl('api-versions')]
  const plain = { kubectl: [], 'apiserver-bootstrap': [] }
  assert.equal(shellLine(commands, plain), 'kubectl version && kubectl api-versions # first stop it')
  assert.equal(shellLine([byHand('stop it')], plain), '# stop it')
})

test('the shell receives names from a cluster as literal words', () => {
  const names = ['$(id)', 'a b', "it's", '`id`', 'a;b', '\\n', '"', '*', '-x', 'a\nb']
  for (const name of names) {
    const line = shellLine([{ tool: 'kubectl', args: [name], input: name }], { ...flags, kubectl: [] })
    const script = `kubectl() { cat; printf ' %s' "$@"; }; ${line}`
    const printed = execFileSync('sh', ['-c', script], { encoding: 'utf8' })
    // A line break would start another line of the report.
    assert.equal(printed, `${JSON.stringify(name)} ${name.replace('\n', '\\u000a')}`)
  }
})
