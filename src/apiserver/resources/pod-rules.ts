import { equalJson } from '../../runtime/equal-json.ts'
import { type Draft, listMember, type Members, member } from '../kind.ts'
import { dnsLabelFault } from '../names.ts'
import type { FieldErrors } from '../refusal.ts'
import type { StoredObject } from '../store.ts'
import { identityOf } from '../strategic-merge-patch.ts'
import { checkName, checkOneOf, protocols } from './endpoints.ts'

const restartPolicies = ['Always', 'OnFailure', 'Never']
const pullPolicies = ['Always', 'IfNotPresent', 'Never']

/** Checks those rules of upstream's ValidatePodSpec that manifests break most often, in upstream's order. */
export function validatePodSpec(spec: Members, errors: FieldErrors): void {
  const containers = listMember(spec, 'containers')
  const volumes = new Set(listMember(spec, 'volumes').map(({ name }) => name))
  const names = new Set<unknown>()
  if (containers.length === 0) errors.required('spec.containers')
  for (const field of ['containers', 'initContainers']) {
    for (const [index, container] of listMember(spec, field).entries()) {
      const path = `spec.${field}[${index}]`
      checkContainer(container, volumes, path, errors)
      if (names.has(container.name)) errors.duplicate(`${path}.name`, container.name)
      names.add(container.name)
    }
  }
  if (spec.restartPolicy) checkOneOf(spec.restartPolicy, restartPolicies, 'spec.restartPolicy', errors)
}

function checkContainer(container: Members, volumes: ReadonlySet<unknown>, path: string, errors: FieldErrors): void {
  if (!container.name) errors.required(`${path}.name`)
  checkName(container.name, `${path}.name`, dnsLabelFault, errors)
  if (!container.image) errors.required(`${path}.image`)
  for (const [index, port] of listMember(container, 'ports').entries()) {
    const portPath = `${path}.ports[${index}]`
    if (!port.containerPort) errors.required(`${portPath}.containerPort`)
    for (const field of ['containerPort', 'hostPort']) {
      const number = Number(port[field] ?? 0)
      const isPort = number >= 0 && number <= 65535
      if (!isPort) errors.invalid(`${portPath}.${field}`, number, 'must be between 1 and 65535, inclusive')
    }
    if (port.protocol) checkOneOf(port.protocol, protocols, `${portPath}.protocol`, errors)
  }
  for (const [index, { name }] of listMember(container, 'env').entries()) {
    if (!name) errors.required(`${path}.env[${index}].name`)
  }
  for (const [index, mount] of listMember(container, 'volumeMounts').entries()) {
    const mountPath = `${path}.volumeMounts[${index}]`
    if (!mount.name) errors.required(`${mountPath}.name`)
    if (!volumes.has(mount.name)) errors.notFound(`${mountPath}.name`, mount.name ?? '')
    if (!mount.mountPath) errors.required(`${mountPath}.mountPath`)
  }
  const { imagePullPolicy } = container
  if (imagePullPolicy) checkOneOf(imagePullPolicy, pullPolicies, `${path}.imagePullPolicy`, errors)
}

const mutableFields = [
  '`spec.containers[*].image`',
  '`spec.initContainers[*].image`',
  '`spec.activeDeadlineSeconds`',
  '`spec.tolerations` (only additions to existing tolerations)',
  '`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
]

/** Upstream's ValidatePodUpdate. Its last message also has a diff of Go structs, which is left out here. */
export function validatePodUpdate(draft: Draft, live: StoredObject, errors: FieldErrors): void {
  const [spec, before] = [member(draft, 'spec'), member(live, 'spec')]
  if (spec === before) return
  for (const field of ['containers', 'initContainers']) {
    const containers = listMember(spec, field)
    if (containers.length !== listMember(before, field).length) {
      errors.forbidden(`spec.${field}`, 'pod updates may not add or remove containers')
      return
    }
    for (const [index, { image }] of containers.entries()) {
      const path = `spec.${field}[${index}].image`
      if (!image) errors.required(path)
      else if (String(image).trim() !== image) {
        errors.invalid(path, image, 'must not have leading or trailing whitespace')
      }
    }
  }
  if (!checkDeadline(spec.activeDeadlineSeconds, before.activeDeadlineSeconds, errors)) return
  checkTolerations(listMember(spec, 'tolerations'), listMember(before, 'tolerations'), errors)
  const gates = new Set(listMember(before, 'schedulingGates').map(({ name }) => name))
  for (const [index, { name }] of listMember(spec, 'schedulingGates').entries()) {
    const why = `only deletion is allowed, but found new scheduling gate '${name}'`
    if (!gates.has(name)) errors.forbidden(`spec.schedulingGates[${index}].name`, why)
  }
  if (!equalJson(withoutEmpty(immutablePart(spec, before)), withoutEmpty(immutablePart(before, before)))) {
    errors.forbidden('spec', `pod updates may not change fields other than ${mutableFields.join(',')}`)
  }
}

/** Checks the deadline. Returns whether to check the fields after it too. */
function checkDeadline(seconds: unknown, before: unknown, errors: FieldErrors): boolean {
  const path = 'spec.activeDeadlineSeconds'
  if (seconds === undefined && before !== undefined) {
    errors.invalid(path, null, 'must not update from a positive integer to nil value')
  }
  if (seconds === undefined || before === undefined || Number(seconds) <= Number(before)) return true
  errors.invalid(path, seconds, 'must be less than or equal to previous value')
  return false
}

function checkTolerations(tolerations: readonly Members[], before: readonly Members[], errors: FieldErrors): void {
  const untimed = ({ tolerationSeconds: _seconds, ...rest }: Members): string => identityOf(withoutEmpty(rest))
  // A set, because there may be a hundred thousand tolerations, too many to compare each with each.
  const present = new Set(tolerations.map(untimed))
  if (before.every((old) => present.has(untimed(old)))) return
  errors.forbidden('spec.tolerations', 'existing toleration can not be modified except its tolerationSeconds')
}

/**
 * The fields of `spec` that an update must leave as they are. `before` is the stored spec: while it has scheduling
 * gates, `nodeSelector` and `affinity` may change.
 */
function immutablePart(spec: Members, before: Members): object {
  const { activeDeadlineSeconds: _deadline, tolerations: _tolerations, schedulingGates: _gates, ...fixed } = spec
  const isGated = listMember(before, 'schedulingGates').length > 0
  const { nodeSelector: _selector, affinity: _affinity, ...ungated } = fixed
  const imageless = (field: string) => listMember(spec, field).map(({ image: _image, ...rest }) => rest)
  return {
    ...(isGated ? ungated : fixed),
    containers: imageless('containers'),
    initContainers: imageless('initContainers'),
  }
}

/**
 * The value without empty members at any depth. Go programs send empty values of fields that other clients leave out.
 */
function withoutEmpty(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutEmpty)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).map(([name, item]) => [name, withoutEmpty(item)] as const)
  return Object.fromEntries(members.filter(([, item]) => !isEmpty(item)))
}

function isEmpty(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length === 0
  return !value
}
