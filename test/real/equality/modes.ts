/** A reconciler, by the flags that kube-apiserver and this program have in common. */
export type ModeName = 'lease' | 'master-count 1' | 'master-count 3'

export const modes: Readonly<Record<ModeName, readonly string[]>> = {
  lease: ['--endpoint-reconciler-type=lease'],
  'master-count 1': ['--endpoint-reconciler-type=master-count', '--apiserver-count=1'],
  'master-count 3': ['--endpoint-reconciler-type=master-count', '--apiserver-count=3'],
}

export const modeNames = Object.keys(modes) as readonly ModeName[]
