import { configMaps } from '../../kube/resources.ts'
import type { Kind } from '../kind.ts'
import { dnsSubdomainFault } from '../names.ts'
import { boolean, kindSchema, map } from '../schema.ts'

export const configMapKind: Kind = {
  resource: configMaps,
  singular: 'configmap',
  shortNames: ['cm'],
  schema: kindSchema({ data: map, binaryData: map, immutable: boolean }),
  hasStatus: false,
  createOnUpdate: false,
  nameFault: dnsSubdomainFault,
  validate(draft, errors) {
    for (const key of Object.keys({ ...(draft.data as object | undefined) })) {
      if (!/^[-._a-zA-Z0-9]{1,253}$/.test(key)) {
        errors.invalid(
          `data[${key}]`,
          key,
          "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
        )
      }
    }
  },
}
