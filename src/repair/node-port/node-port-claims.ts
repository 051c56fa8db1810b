import type { Service } from '../../kube/resources.ts'
import { AddressError } from '../../net/address.ts'
import { portAllocationRange } from '../../net/allocation-range.ts'
import { type PortRange, parsePortRange } from '../../net/port-range.ts'
import type { Finding } from '../finding.ts'
import { type RangeClaims, regardingService } from '../range-claims.ts'
import { nodePortsOf } from '../service-claims.ts'

/**
 * What Services hold of the NodePorts. Upstream: pkg/registry/core/service/portallocator/controller/repair.go; its findings for a range
 * that is full and for unknown errors cannot come about there, nor here.
 */
export function nodePortClaims(range: PortRange): RangeClaims {
  const ports = portAllocationRange(range)
  const about = (service: Service, port: string | number): Pick<Finding, 'regarding' | 'item'> => ({
    regarding: regardingService(service),
    item: String(port),
  })
  return {
    kind: 'node-port',
    ranges: [
      {
        name: 'servicenodeports',
        text: ports.text,
        size: ports.size,
        textAt: ports.textAt,
        offsetOf: (item) => ports.offsetOf(Number(item)),
        flagFor: (text) => `--service-node-port-range=${text}`,
      },
    ],
    parse(text) {
      try {
        return portAllocationRange(parsePortRange(text))
      } catch (error) {
        if (error instanceof AddressError) return undefined
        throw error
      }
    },
    visit(service, hold, fault) {
      for (const port of nodePortsOf(service)) {
        const offset = ports.offsetOf(port)
        if (offset !== undefined) hold(0, offset)
        else {
          fault?.({
            type: 'outOfRange',
            reason: 'PortOutOfRange',
            note: `Port ${port} is not within the port range ${ports.text}; please recreate service`,
            ...about(service, port),
          })
        }
      }
    },
    notAllocated(service, _range, offset, repairing) {
      const port = ports.textAt(offset)
      const note = `Port ${port} is not allocated${repairing ? '; repairing' : ''}`
      return { type: 'repair', reason: 'PortNotAllocated', note, ...about(service, port) }
    },
    duplicate(service, _range, offset) {
      const port = ports.textAt(offset)
      const note = `Port ${port} was assigned to multiple services; please recreate service`
      return { type: 'duplicate', reason: 'PortAlreadyAllocated', note, ...about(service, port) }
    },
    leaked(_range, offset, repairing) {
      const item = ports.textAt(offset)
      const note = `Port ${item} appears to have leaked${repairing ? ': cleaning up' : ''}`
      return { type: 'leak', reason: 'PortLeaked', note, item, regarding: undefined }
    },
  }
}
