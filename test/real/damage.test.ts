import { describeDamage } from './damage-rounds.ts'

describeDamage('default/kubernetes is corrected', { rounds: 2, controllerManager: false })
describeDamage("default/kubernetes is corrected beside kube-controller-manager's endpoint controllers", {
  rounds: 2,
  controllerManager: true,
})
