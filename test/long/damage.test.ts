import { describeDamage } from '../real/damage-rounds.ts'

describeDamage('default/kubernetes is corrected ten times over', { rounds: 10, controllerManager: false })
describeDamage("default/kubernetes is corrected ten times over beside kube-controller-manager's endpoint controllers", {
  rounds: 10,
  controllerManager: true,
})
