import * as z from 'zod/mini'
import { fileName, type OptionGroup, type Rule, requires, type ValuesOf } from '../documents/option.ts'

export const connectionOptions = {
  title: 'The API server (one of the first three is required)',
  options: {
    kubeconfig: {
      schema: fileName,
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
      description: 'run an API server in this process and bootstrap it, to try things out',
      default: false,
      replaces: ['kubeconfig', 'context', 'inCluster'],
    },
    context: {
      schema: z.string().check(z.minLength(1, 'must be the name of a context')),
      metavar: 'NAME',
      description: 'context of the kubeconfig to use',
      unset: 'its current-context',
    },
  },
} as const satisfies OptionGroup

export type ConnectionValues = ValuesOf<typeof connectionOptions>

/** The options of commands that only observe a cluster. Like kubectl, these commands find a cluster without options. */
export const observedConnectionOptions = {
  title: 'The API server',
  options: {
    kubeconfig: {
      ...connectionOptions.options.kubeconfig,
      description: 'kubeconfig of the API server',
      unset: "$KUBECONFIG, ~/.kube/config, or the Pod's service account",
    },
    inCluster: {
      ...connectionOptions.options.inCluster,
      description: "use the API server that this Pod's service account belongs to",
    },
    context: connectionOptions.options.context,
  },
} as const satisfies OptionGroup

const servers = ['kubeconfig', 'inCluster', 'embedded'] as const

const onlyOne: Rule<ConnectionValues> = {
  on: 'kubeconfig',
  needs: servers,
  breach: (values) =>
    chosenIn(values) > 1 ? 'only one of --kubeconfig, --in-cluster and --embedded can be given' : undefined,
}

export const observedConnectionRules: readonly Rule<ConnectionValues>[] = [
  onlyOne,
  {
    on: 'embedded',
    needs: servers,
    breach: (values) =>
      values.embedded && chosenIn(values) === 1
        ? 'cannot be used here: the embedded API server exists only inside the process of run; use --kubeconfig or --in-cluster'
        : undefined,
  },
]

export const connectionRules: readonly Rule<ConnectionValues>[] = [
  onlyOne,
  {
    on: 'kubeconfig',
    needs: servers,
    breach: (values) =>
      chosenIn(values) === 0
        ? 'one of --kubeconfig, --in-cluster and --embedded is required; there is no default API server'
        : undefined,
  },
  requires('context', 'kubeconfig'),
]

function chosenIn({ kubeconfig, inCluster, embedded }: ConnectionValues): number {
  return Number(kubeconfig !== undefined) + Number(inCluster) + Number(embedded)
}
