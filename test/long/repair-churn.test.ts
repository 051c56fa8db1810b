import { testChurn } from '../real/repair-churn.ts'

testChurn('bare-1.32', { untilFreed: true })
