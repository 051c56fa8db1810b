import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Takes a renewal that met a conflict for one that was made.',
  invariant: 'no-address-goes-without-cause',
  file: 'kubernetes-service/leases/kubernetes.ts',
  text: "        if (!isKubeError(error, 'Conflict', 'AlreadyExists') || tries === MOST_TRIES) throw error\n",
  instead:
    "        if (!isKubeError(error, 'Conflict', 'AlreadyExists') || tries === MOST_TRIES) throw error\n        return\n",
}
