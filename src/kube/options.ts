import * as z from 'zod/mini'
import type { OptionGroup, Rule, ValuesOf } from '../documents/option.ts'

/** Which API server is spoken to, and as whom. */
export const connectionOptions = {
  title: 'The API server (one of the first three is required)',
  options: {
    kubeconfig: {
      schema: z.string().check(z.minLength(1, 'needs the name of a file')),
      metavar: 'FILE',
      description: 'kubeconfig of the API server to bootstrap',
      replaces: ['inCluster', 'embedded'],
    },
    inCluster: {
      schema: z.boolean(),
      description: "bootstrap the API server that this Pod's service account belongs to",
      default: false,
      replaces: ['kubeconfig', 'context', 'embedded'],
    },
    embedded: {
      schema: z.boolean(),
      description: 'run an API server in this process and bootstrap that one: to try things out',
      default: false,
      replaces: ['kubeconfig', 'context', 'inCluster'],
    },
    context: {
      schema: z.string().check(z.minLength(1, 'needs the name of a context')),
      metavar: 'NAME',
      description: 'context of the kubeconfig to use',
      unset: 'its current-context',
    },
  },
} as const satisfies OptionGroup

export type ConnectionValues = ValuesOf<typeof connectionOptions>

export const connectionRules: readonly Rule<ConnectionValues>[] = [
  {
    on: 'kubeconfig',
    needs: ['kubeconfig', 'inCluster', 'embedded'],
    breach({ kubeconfig, inCluster, embedded }) {
      const chosen = Number(kubeconfig !== undefined) + Number(inCluster) + Number(embedded)
      if (chosen === 0)
        return 'one of --kubeconfig, --in-cluster and --embedded is required; there is no default API server'
      if (chosen > 1) return 'only one of --kubeconfig, --in-cluster and --embedded can be given'
      return undefined
    },
  },
  {
    on: 'context',
    needs: ['kubeconfig', 'context'],
    breach: ({ kubeconfig, context }) =>
      context !== undefined && kubeconfig === undefined ? 'needs --kubeconfig' : undefined,
  },
]
