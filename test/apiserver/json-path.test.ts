import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseJsonPath } from '../../src/apiserver/json-path.ts'

const object = {
  spec: {
    replicas: 3,
    'a.b': 'dotted',
    '*': 'starred',
    list: [
      { name: 'x', value: 1 },
      { name: 'y', value: 2 },
    ],
  },
  status: {
    conditions: [
      { type: 'Synced', status: 'False' },
      { type: 'Ready', status: 'True' },
    ],
  },
}

for (const [path, expected] of [
  ['.spec.replicas', 3],
  ['$.spec.replicas', 3],
  ['.spec.a\\.b', 'dotted'],
  [".spec['a.b']", 'dotted'],
  ['.spec["a.b"]', 'dotted'],
  ['.spec.list[1].value', 2],
  [".spec['a\\.b']", 'dotted'],
  ['.spec.list[*].name', 'x'],
  ['.spec.list.*.name', 'x'],
  [".spec.list['*'].name", 'x'],
  ['.spec.\\*', 'starred'],
  [".spec['\\*']", 'starred'],
  ['.status.conditions[?(@.type=="Ready")].status', 'True'],
  [".status.conditions[?(@.type == 'Ready')].status", 'True'],
  ['.status.conditions[?(@.type=="Other")].status', undefined],
  ['.spec.list[7].value', undefined],
  ['.spec.replicas.more', undefined],
  ['.none.at.all', undefined],
  ['.__proto__', undefined],
] as const) {
  test(`JSONPath ${path} selects ${JSON.stringify(expected)}`, () => {
    assert.deepEqual(parseJsonPath(path)?.(object), expected)
  })
}

for (const path of ['', '.', 'spec', '.spec..replicas', '.spec[', '.spec[?(@.a>1)]', '{.spec}', '..name']) {
  test(`${JSON.stringify(path)} is not a valid JSONPath`, () => assert.equal(parseJsonPath(path), undefined))
}
