import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Takes a renewal that met a conflict for one that was made.',
  invariant: 'no-address-goes-without-cause',
  file: 'kubernetes-service/leases/kubernetes.ts',
  text: "        } else if (isKubeError(error, 'Conflict', 'AlreadyExists')) {\n",
  instead: "        } else if (isKubeError(error, 'Conflict', 'AlreadyExists')) {\n          return\n",
}
