// A file that is dropped on a field of text becomes the text of the field.
for (const field of document.querySelectorAll("textarea[data-drop]")) {
  field.addEventListener("dragover", (event) => event.preventDefault());
  field.addEventListener("drop", async (event) => {
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    field.value = await file.text();
    field.focus();
  });
}
