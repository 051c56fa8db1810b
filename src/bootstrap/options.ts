import * as z from 'zod/mini'
import type { OptionGroup, ValuesOf } from '../documents/option.ts'
import { type ControllerSelection, formatControllers, parseControllers } from './controller-selection.ts'

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

/** What a master as a whole does. */
export const masterOptions = {
  title: 'Duties',
  options: {
    controllers: {
      schema: controllers,
      metavar: 'LIST',
      description:
        'duties: names on, -name off; auto: all of kubernetes-service, system-namespaces, default-service-cidr, cluster-ip-repair and node-port-repair, but what the server does itself is left to it (of the repairs it is told what they find)',
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
