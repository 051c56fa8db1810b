// Stands in the bundle for modules that nothing calls (bundle.ts).
export {}
