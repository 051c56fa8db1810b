import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export type BinaryName =
  | 'etcd'
  | 'kine'
  | 'kube-apiserver'
  | 'bare-apiserver'
  | 'bare-apiserver-1.32'
  | 'eager-apiserver'
  | 'generic-apiserver'
  | 'kube-controller-manager'
  | 'kubectl'
  | 'kubeadm'
  | 'stored-bytes'
  | 'promtool'

/** The path where `npm run peers` puts a binary. If it is missing, throws an error that names that command. */
export function binary(name: BinaryName): string {
  const path = fileURLToPath(new URL(`bin/${name}`, import.meta.url))
  if (!existsSync(path)) throw new Error(`test/peers/bin/${name} is missing: run "npm run peers"`)
  return path
}
