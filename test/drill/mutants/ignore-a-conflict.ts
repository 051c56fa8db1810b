import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Takes a renewal that met a conflict for one that was made.',
  file: 'kubernetes-service/leases/kubernetes.ts',
  text: "        } else if (isKubeError(error, 'Conflict', 'AlreadyExists')) {\n",
  instead: "        } else if (isKubeError(error, 'Conflict', 'AlreadyExists')) {\n          return\n",
}
