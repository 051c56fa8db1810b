// Run by leaks.test.ts: a test file without a test.
export {}
