import { endpoints } from '../../kube/resources.ts'
import { tryParseAddress } from '../../net/address.ts'
import type { FieldErrors } from '../field-errors.ts'
import { endpointAddressFault, ipFault } from '../ip-text.ts'
import { type Draft, type Kind, listMember } from '../kind.ts'
import { dnsLabelFault, dnsSubdomainFault } from '../names.ts'
import { any, integer, kindSchema, list, object, string } from '../schema.ts'

type Members = Readonly<Record<string, unknown>>

const address = object({ ip: string, hostname: string, nodeName: string, targetRef: any })

export const protocols = ['SCTP', 'TCP', 'UDP']

export const endpointsKind: Kind = {
  resource: endpoints,
  singular: 'endpoints',
  shortNames: ['ep'],
  schema: kindSchema({
    subsets: list(
      object({
        addresses: list(address),
        notReadyAddresses: list(address),
        ports: list(object({ name: string, port: integer, protocol: string, appProtocol: string })),
      }),
    ),
  }),
  hasStatus: false,
  createOnUpdate: true,
  nameFault: dnsSubdomainFault,
  withDefaults: (draft) =>
    draft.subsets === undefined ? draft : { ...draft, subsets: subsetsOf(draft).map(withProtocols) },
  validate(draft, errors) {
    for (const [index, subset] of subsetsOf(draft).entries()) validateSubset(subset, `subsets[${index}]`, errors)
  },
}

function subsetsOf(draft: Draft): readonly Members[] {
  return listMember(draft, 'subsets')
}

function withProtocols(subset: Members): Members {
  const ports = listMember(subset, 'ports')
  if (ports.every((port) => port.protocol !== undefined)) return subset
  return { ...subset, ports: ports.map((port) => ({ ...port, protocol: port.protocol ?? 'TCP' })) }
}

function validateSubset(subset: Members, path: string, errors: FieldErrors): void {
  const lists = ['addresses', 'notReadyAddresses'] as const
  if (lists.every((name) => listMember(subset, name).length === 0)) {
    errors.required(path, 'must specify `addresses` or `notReadyAddresses`')
  }
  for (const name of lists) {
    for (const [index, item] of listMember(subset, name).entries())
      validateAddress(item, `${path}.${name}[${index}]`, errors)
  }
  const ports = listMember(subset, 'ports')
  for (const [index, port] of ports.entries()) validatePort(port, ports.length > 1, `${path}.ports[${index}]`, errors)
}

function validateAddress(item: Members, path: string, errors: FieldErrors): void {
  const ip = String(item.ip ?? '')
  const parsed = tryParseAddress(ip)
  const fault = parsed === undefined ? ipFault(ip) : endpointAddressFault(parsed)
  if (fault !== undefined) errors.invalid(`${path}.ip`, ip, fault)
  checkName(item.hostname, `${path}.hostname`, dnsLabelFault, errors)
  checkName(item.nodeName, `${path}.nodeName`, dnsSubdomainFault, errors)
}

function validatePort(port: Members, nameRequired: boolean, path: string, errors: FieldErrors): void {
  const name = String(port.name ?? '')
  if (name === '' && nameRequired) errors.required(`${path}.name`)
  if (name !== '') checkName(name, `${path}.name`, dnsLabelFault, errors)
  checkPort(port.port ?? 0, `${path}.port`, errors)
  if (!protocols.includes(String(port.protocol))) errors.notSupported(`${path}.protocol`, port.protocol, protocols)
}

/** A port number must be one. */
export function checkPort(port: unknown, path: string, errors: FieldErrors): void {
  if (typeof port !== 'number' || port < 1 || port > 65535)
    errors.invalid(path, port, 'must be between 1 and 65535, inclusive')
}

/** A name, where it is given, must have no fault. */
export function checkName(
  name: unknown,
  path: string,
  faultOf: (text: string) => string | undefined,
  errors: FieldErrors,
): void {
  const fault = typeof name === 'string' && name !== '' ? faultOf(name) : undefined
  if (fault !== undefined) errors.invalid(path, name, fault)
}
