import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  formatControllers,
  isSelected,
  parseControllers,
  workloadControllerNames,
} from '../../src/bootstrap/controller-selection.ts'

test('auto is the usual set, names add to it and a dash takes away', () => {
  assert.deepEqual(parseControllers(['auto']), { auto: true, on: [], off: [] })
  assert.deepEqual(parseControllers(['auto', 'default-service-cidr', '-system-namespaces']), {
    auto: true,
    on: ['default-service-cidr'],
    off: ['system-namespaces'],
  })
})

test('a list without auto is exactly that list', () => {
  assert.deepEqual(parseControllers(['kubernetes-service', 'kubernetes-service']), {
    auto: false,
    on: ['kubernetes-service'],
    off: [],
  })
})

test('a selection is written as it is read', () => {
  const items = ['auto', 'kubernetes-service', '-default-service-cidr']
  assert.deepEqual(formatControllers(parseControllers(items)), items)
})

test('a list that cannot be meant is refused with its reason', () => {
  assert.throws(() => parseControllers([]), /turns nothing on/)
  assert.throws(() => parseControllers(['-system-namespaces']), /turns nothing on/)
  assert.throws(
    () => parseControllers(['auto', 'system-namespaces', '-system-namespaces']),
    /turns system-namespaces both on and off/,
  )
  assert.throws(() => parseControllers(['-auto']), /there is no controller "auto"/)
  assert.throws(() => parseControllers(['autos']), /there is no controller "autos"; known are auto, /)
  assert.throws(() => parseControllers(['Kubernetes-Service']), /\(did you mean kubernetes-service\?\)/)
})

test('the controllers of a kube-controller-manager are on only where they are named', () => {
  for (const name of workloadControllerNames) {
    assert.equal(isSelected(parseControllers(['auto']), name), false)
    assert.equal(isSelected(parseControllers(['auto', name]), name), true)
    assert.equal(isSelected(parseControllers([name]), name), true)
  }
  assert.equal(isSelected(parseControllers(['auto', 'endpoints']), 'node-port-repair'), true)
  assert.equal(isSelected(parseControllers(['endpoints']), 'node-port-repair'), false)
})
