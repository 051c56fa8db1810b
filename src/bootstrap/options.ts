import * as z from 'zod/mini'
import type { OptionGroup, Rule, ValuesOf } from '../documents/option.ts'
import type { KubernetesServiceValues } from '../kubernetes-service/options.ts'
import { type ControllerSelection, formatControllers, isSelected, parseControllers } from './duties.ts'

const controllers = z.codec(z.array(z.string()), z.custom<ControllerSelection>(), {
  decode(items, context) {
    try {
      return parseControllers(items)
    } catch (error) {
      context.issues.push({ code: 'custom', message: (error as Error).message, input: items })
      return z.NEVER
    }
  },
  encode: formatControllers,
})

export const masterOptions = {
  title: 'Duties',
  options: {
    controllers: {
      schema: controllers,
      metavar: 'LIST',
      description:
        'duties: NAME turns one on, -NAME off; auto: kubernetes-service, system-namespaces, default-service-cidr, cluster-ip-repair and node-port-repair, except those that the server performs itself (such repairs report only); endpoints, endpointslice, endpointslice-mirroring and service-cidr, for clusters without a kube-controller-manager, by name only',
      default: ['auto'],
    },
    dryRun: {
      schema: z.boolean(),
      description: 'log every action with its reason, write nothing',
      default: false,
    },
  },
} as const satisfies OptionGroup

export type MasterValues = ValuesOf<typeof masterOptions>

export const masterRules: readonly Rule<MasterValues & KubernetesServiceValues>[] = [
  {
    on: 'advertiseAddress',
    needs: ['advertiseAddress', 'endpointReconcilerType', 'controllers'],
    breach: ({ advertiseAddress, endpointReconcilerType, controllers }) =>
      advertiseAddress === undefined &&
      endpointReconcilerType !== 'none' &&
      isSelected(controllers, 'kubernetes-service')
        ? 'is required, unless --endpoint-reconciler-type is none or --controllers leaves out kubernetes-service'
        : undefined,
  },
]
