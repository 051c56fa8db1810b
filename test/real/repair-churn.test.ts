import { testChurn } from './repair-churn.ts'

// With bitmaps of ClusterIPs: test/long/repair-churn.test.ts.

testChurn('bare')
