/** A kubeconfig that cannot be used. The message is one line that names the file and what to mend; nothing was contacted. */
export class KubeConfigError extends Error {
  override readonly name = 'KubeConfigError'
  readonly code = 'InvalidKubeConfig'
}
